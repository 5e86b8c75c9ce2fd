package troupe

import (
	"fmt"
	"time"

	"github.com/troupehq/troupe/internal/limits"
)

// Unique says which jobs of a class are the same, of which there is to be one at a time: a push of another one is a
// *client.DuplicateError while the first holds their lock. The zero value is: same class, queue and arguments, until
// the job is done. It stands in Options.Unique of a type's Defaults, or in client.Unique.
type Unique struct {
	// By chooses the arguments that count, in place of all: "0" is the first argument, "0.id" the field id of
	// it, and "id" is short for "0.id". A push whose arguments have no such place is an error.
	By []string

	// Until is when the lock is freed: UntilDone, UntilStart or UntilPeriod.
	Until UniqueUntil

	// For is how long the lock lives at most: from the push, the time that a scheduled job or a retry is
	// due, or the last sign of life of a run. Then the next push succeeds, whatever has become of the job. Unset, it
	// is 24 hours; of UntilPeriod it is the period, and must be set. A millisecond or more.
	For time.Duration

	// Across makes jobs of all queues the same. Not on a Redis Cluster.
	Across bool
}

// UniqueUntil is when the lock of a unique job is freed.
type UniqueUntil int

const (
	// UntilDone frees it when the job is done, dead, dropped or deleted; a job that is to be retried keeps it.
	UntilDone UniqueUntil = iota
	// UntilStart frees it before the first run begins, so that what is pushed while the job runs is run as well. Retries do not take it again.
	UntilStart
	// UntilPeriod frees it after For, and not before.
	UntilPeriod
)

// String is the name of it: "done", "start" or "period".
func (u UniqueUntil) String() string {
	switch u {
	case UntilDone:
		return "done"
	case UntilStart:
		return "start"
	case UntilPeriod:
		return "period"
	}
	return fmt.Sprintf("UniqueUntil(%d)", int(u))
}

// Validate tells what is wrong with u.
func (u Unique) Validate() error {
	switch {
	case u.Until < UntilDone || u.Until > UntilPeriod:
		return &limits.Fault{Field: "Unique.Until", Got: u.Until.String(), Want: "UntilDone, UntilStart or UntilPeriod"}
	case u.For < 0 || u.For > 0 && u.For < time.Millisecond:
		return &limits.Fault{Field: "Unique.For", Got: u.For.String(), Want: "a millisecond or more"}
	case u.For == 0 && u.Until == UntilPeriod:
		return &limits.Fault{Field: "Unique.For", Got: "0", Want: "the period of UntilPeriod"}
	}
	for i, by := range u.By {
		if by == "" {
			return &limits.Fault{Field: fmt.Sprintf("Unique.By[%d]", i), Got: "empty", Want: `a place such as "0", "0.id" or "id"`}
		}
	}
	return nil
}
