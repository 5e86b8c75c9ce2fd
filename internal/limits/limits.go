// Package limits has the defaults of a daemon, and the bounds that its configuration is checked against.
package limits

import (
	"cmp"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// What a daemon is configured to where nothing is said. No other file has these numbers, but for
// docs/configuration.md and the comment of actors.Config: tests of the packages house, config and actors hold that.
const (
	Concurrency = 10                   // jobs at once, of a capsule
	Timeout     = 25 * time.Second     // that running jobs have at a stop
	Grace       = 3 * time.Second      // and then, when their contexts are cancelled
	Lease       = 30 * time.Second     // without a sign of life
	Retries     = 25                   // of a job whose retry is true
	DeadMax     = 10_000               // entries of the dead set
	DeadTimeout = 180 * 24 * time.Hour // age of its oldest
	PollEach    = 5 * time.Second      // between two looks at the sets, for each process
	Beat        = 10 * time.Second     // between two beats
	Window      = 72 * time.Hour       // how long a recovery counts
	Recoveries  = 3                    // after which a job is poison
	Bytes       = 1 << 20              // payloads of one call
	Rest        = time.Minute          // of a limit whose breaker is open
)

// What follows from them, with all steps in their time.
const (
	StopTime   = Timeout + 8*time.Second // a stop takes at most
	RescueTime = Lease + RescueEvery     // until the jobs of a dead process are back
	// RescueEvery is the longest pause between two looks for dead processes.
	RescueEvery = 15 * time.Second
)

// What can be said at most, and at least.
const (
	MaxConcurrency = 10_000
	MaxFetchBytes  = 1 << 30
	MinLease       = time.Second
	// MaxWaiters is how many connections of a capsule wait for pushes at most: Redis has few
	// of them, 10,000 by default.
	MaxWaiters = 8
)

// Queues tells what is wrong with a list of queues: none, or a name that is empty or not
// UTF-8. The error names the offending queue.
func Queues(names []string) error {
	if len(names) == 0 {
		return errors.New("queues: none listed, expected at least one queue")
	}
	for i, name := range names {
		if name == "" {
			return fmt.Errorf("queues: name %d of %d is empty", i+1, len(names))
		}
		if !utf8.ValidString(name) {
			return fmt.Errorf("queues: name %q is not UTF-8", name)
		}
	}
	return nil
}

// Poison fills in the defaults of a poison policy for what is 0; -1 is none.
func Poison(recoveries int, within time.Duration, suspect int) (int, time.Duration, int) {
	recoveries = cmp.Or(recoveries, Recoveries)
	return recoveries, cmp.Or(within, Window), cmp.Or(suspect, max(1, recoveries-1))
}
