// Package rescue puts back what dead processes had in progress: it has the Rescuer, which daemons,
// the command line and the dashboard use.
package rescue

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/limits"
)

// ErrBusy tells that another rescuer is at work, or was a moment ago.
var ErrBusy = errors.New("another rescuer is at work")

// Config is what a Rescuer is made of.
type Config struct {
	Redis redis.UniversalClient
	Lease time.Duration // of the fleet's fetchers, sets the pace; 0 is the default

	// Identity of this process. Its own fetchers are passed over: after a pause
	// of the whole process they resume and keep their units, unless another
	// process was faster. Not so incarnations that they have given up. "" rescues
	// whoever is due.
	Identity string
	Queues   []string // that this process takes from; a cluster looks there, too

	// Policy decides where each unit goes; nil puts all of them back as they are
	// and counts nothing.
	Policy Policy
	Window time.Duration // how long a recovery counts; 0 is the default

	// QueueOf is what a job says of its queue, "" if it says nothing: the claim that no index
	// names any more goes there. nil: such claims stay where they are.
	QueueOf func(payload []byte) string

	// Grace tells how long owners that look dead are still to be left alone, since those who
	// live may have had no way to renew their leases. Rescue asks when it has found some. nil: not at all.
	Grace func(ctx context.Context) (time.Duration, error)

	Logger zerolog.Logger // debug lines, and what Redis has lost: what was done is in the Round
	Rand   *rand.Rand     // for tests; nil means one that Identity and the time make
}

// Round is what one round of a Rescuer did.
type Round struct {
	Fetchers int           // dead fetchers of which nothing is left in progress
	Units    int           // units that are no longer in progress
	Details  []From        // per fetcher that was found dead
	Next     time.Duration // when to look again; always positive, jittered
}

// From is what was done about one dead fetcher.
type From struct {
	ID       string         // IDENTITY#CAPSULE.INCARNATION
	Queues   map[string]int // name of the queue they came from -> units put back; without empty ones
	Rerouted []Rerouted     // those of them that went elsewhere
	Done     bool           // false: the next round goes on with it
}

// Policy decides where a Rescuer puts what a dead process had in progress. The
// Rescuer counts; what a job is, only the policy knows.
type Policy interface {
	// Key is the name under which the recoveries of a job are counted.
	Key(payload []byte) string

	// Decide decides about one unit. It may be asked more than once about the
	// same one; only what was done is in the Round.
	Decide(o Orphan) Decision
}

// Orphan is a unit of work whose process is gone.
type Orphan struct {
	Queue   string // bare name
	Payload []byte
	Suspect bool   // it ran as the one suspect of its process
	From    string // id of the fetcher that had it: IDENTITY#CAPSULE.INCARNATION

	// Recoveries are those within Config.Window, this one last.
	Recoveries []Recovery
}

// Recovery is one time that a job lost its process.
type Recovery struct {
	At      time.Time `json:"at"`
	Process string    `json:"process"`           // identity of the process that died
	Suspect bool      `json:"suspect,omitempty"` // it ran as a suspect
	Cause   string    `json:"cause"`             // what is known of the end
}

// Decision is what is done with an Orphan. The zero value puts it back into its
// queue, to the end that is popped next, bytes unchanged.
type Decision struct {
	To      job.Destination // ToQueue, ToSchedule or ToDead
	Queue   string          // for ToQueue: bare name; "" is its own
	Suspect bool            // for ToQueue: to the suspects of that queue
	Score   float64         // of a set, in seconds since the epoch
	Payload []byte          // what is written; nil means what the queue had
	Forget  bool            // its recoveries count no longer
	Trim    limits.Trim     // of the dead set, for ToDead
	Why     error           // for whoever reads the Round
}

// Rerouted is a unit that did not simply go back to where it came from.
type Rerouted struct {
	Orphan   Orphan
	Decision Decision
}
