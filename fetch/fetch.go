// Package fetch takes units of work out of Redis and moves each to where it
// belongs when it is over. Every move is one atomic step in Redis: fetch
// (queue to in progress), ack (gone), retry, death, requeue, rescue; on a Redis
// Cluster, retry and death take two. It sees bytes and queue names, never a
// decoded job and never an actor.
package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/rescue"
)

// Unit is one unit of work: the exact bytes of a job and the queue it was
// fetched from. It is settled once: acked or moved.
type Unit struct {
	Queue   string // bare name
	Payload []byte // the bytes as they stood in the queue; never modified

	// Receipt names the unit among what its fetcher has in progress; empty for a
	// fetcher that keeps nothing in progress. Incarnation is the fetcher's at the time of fetch.
	Receipt     string
	Incarnation uint64

	// Suspect: taken by an Isolator's TakeSuspect. Queue is the queue that it was
	// a suspect of; it settles and goes back to the suspects.
	Suspect bool
}

// Destination is where a Move puts a unit.
//
//	String() string
type Destination = job.Destination

const (
	ToQueue    = job.ToQueue    // the end of queue Unit.Queue that is popped next (RPUSH)
	ToRetry    = job.ToRetry    // the retry set
	ToSchedule = job.ToSchedule // the schedule set
	ToDead     = job.ToDead     // the dead set, trimmed by Trim
	ToBack     = job.ToBack     // the other end of queue Unit.Queue, or Move.Queue, as a push: SADD `queues`, LPUSH
	ToStay     = job.ToStay     // nowhere: it stays in progress, and only the Effects happen. For an Effector
	ToNone     = job.ToNone     // nowhere: it is done, as with an ack of Take. For an Effector
)

// Move takes a unit out of what is in progress and puts it somewhere else in
// Redis, the destination first.
type Move struct {
	Unit    Unit
	To      Destination
	Queue   string  // of ToBack: bare name of another queue; "" is the unit's own
	Score   float64 // of the set member, in seconds since the epoch
	Payload []byte  // what is written; nil means Unit.Payload
	Trim    Trim    // for ToDead

	Effects *Effects // what else happens in the step; nil: nothing. For an Effector
	Stay    *Stay    // of ToStay: what is known of it. It is the same one when the move is passed again
}

// queue is the bare name of the queue it goes to.
func (m *Move) queue() string { return cmp.Or(m.Queue, m.Unit.Queue) }

// bytes is what is written.
func (m *Move) bytes() []byte {
	if m.Payload == nil {
		return m.Unit.Payload
	}
	return m.Payload
}

// Recovery is one time that a job lost its process: At, the Process that died, whether it
// ran as a Suspect, and what is known of the Cause.
//
//	At      time.Time
//	Process string // identity of the process that died
//	Suspect bool   // it ran as a suspect
//	Cause   string // what is known of the end
type Recovery = rescue.Recovery

// Trim bounds the dead set after an insertion; zero fields do not trim. Members with a score up to
// its Before go, and it keeps the newest, one less than its Max, as Sidekiq does.
//
//	Before float64 // members with a score <= Before go
//	Max    int     // keep Max-1 newest, as Sidekiq does
//	Text() string
type Trim = limits.Trim

// score is the decimal text of f, without an exponent: the Web UI reads it.
func score(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// Result is what became of a Move.
type Result int

const (
	// Moved: the destination has it, now or since an earlier try whose reply was lost.
	Moved Result = iota
	// NotMine: the unit is no longer ours (a rescuer took it); nothing was written.
	NotMine
)

// Fetcher takes from the queues of one capsule. Reliable and Basic are the two
// built-in ones; package fetchtest proves a new one. All methods are safe for
// concurrent use; none may block longer than its context and the client's
// time-outs allow.
type Fetcher interface {
	// Open registers the fetcher. It is called before the first Take and
	// repeated until it succeeds.
	Open(ctx context.Context) error

	// Take acks units and takes up to n new ones, in one call that does not
	// block for work; n may be 0, and one call may take fewer than there are.
	// A Take that reaches Env.Bytes ends with the unit that does so.
	// On an error the acks are to be passed again, and what the failed call took
	// is returned by a later Take. Acks of a fenced incarnation have no effect.
	Take(ctx context.Context, n int, acks []Unit) ([]Unit, error)

	// Wait returns when a queue may have work, when d has passed (nil both), or
	// soon after ctx ends (its error). It may return early for nothing. What it
	// may have taken is returned by the next Take. While Redis is away it returns
	// an error at once: the caller paces itself.
	Wait(ctx context.Context, d time.Duration) error

	// Settle carries out each move as one atomic step and returns one Result
	// per move. On an error none of the moves is known; all are to be passed
	// again, and one that had happened is not done twice. Of units that go to
	// one end of a queue the oldest is popped first; list them oldest first.
	Settle(ctx context.Context, moves []Move) ([]Result, error)

	// Renew extends the lease; called every third of Env.Lease, or somewhat later.
	Renew(ctx context.Context) error

	// Close puts back what Wait took ahead and leaves, after the last Take and
	// Settle. A fetcher that still has units in progress leaves its
	// registration behind so that a rescuer finds them when its lease is over,
	// and returns their number. Of one that is not durable, left is lost. After
	// an error it may be called again.
	Close(ctx context.Context) (left int, err error)

	// Durable tells whether unsettled units survive this process.
	Durable() bool
}

// QueueSetter is a Fetcher whose queues can change while it is in use.
type QueueSetter interface {
	Fetcher

	// SetQueues makes every Take from now on take from q. What is in progress stays, and what
	// a Wait has brought already is still handed out. After an error the queues are those
	// from before.
	SetQueues(ctx context.Context, q Queues) error
}

// Ending is a Fetcher whose system can tell its workers to end.
type Ending interface {
	Fetcher

	// Ended tells whether it has: asked after each Take.
	Ended() bool
}

// Isolator is a Fetcher that can take what a rescuer has set apart. Without it
// the suspects of a capsule wait for a process that has it.
type Isolator interface {
	Fetcher

	// Suspects tells whether suspects of the fetcher's queues wait.
	Suspects(ctx context.Context) (bool, error)

	// TakeSuspect takes one, nil if there is none. Units of it have Suspect set
	// and go the ways of all units, by Take's acks and Settle.
	TakeSuspect(ctx context.Context) (*Unit, error)
}

// Effector is a Fetcher whose Settle carries out ToStay, ToNone and the Effects of moves. To others none of these
// is passed.
type Effector interface {
	Fetcher

	// Reaches tells whether the effects of a move of a job of this queue may be on a key; if not, why.
	Reaches(queue, key string) error
}

// Env is what a Factory builds a Fetcher from.
type Env struct {
	// Redis is the daemon's own client, with MaxRetries -1. The fetcher does not
	// close it. Reliable makes connections of its own for Wait with its options.
	Redis redis.UniversalClient
	// OnClient is to be called with each client that the fetcher opens, before its
	// first command; nil: nobody is called.
	OnClient func(redis.UniversalClient)

	Identity string // Sidekiq's identity of the process
	Capsule  string // name of the capsule, unique in the process
	Queues   Queues // what to take from
	// Waiters is how many connections per queue wait for pushes while the capsule has room,
	// as many as threads of Ruby's Sidekiq would: idle processes of both take turns. 0 means
	// 1; eight a capsule at most, the first queues first. Not for Basic.
	Waiters int

	// Bytes bounds the payloads that one Take brings, so that large jobs do not come by
	// the hundred: one unit of any size comes in any case. 0 means 1 MiB.
	Bytes int

	Lease  time.Duration // after this long without a sign of life a rescuer may take over
	Logger zerolog.Logger

	// Fenced is told which incarnation a rescuer has ended, before any call is made for
	// the next one: the FencedError may reach its caller later than the reply of a Take
	// whose acks had no effect. It must not call the fetcher. nil: nobody asks.
	Fenced func(incarnation uint64)

	// Renewed is told of each renewal of the lease that Redis has confirmed: for as long as
	// there is none, other processes may have lost their leases too, and this one rescues
	// nobody. It must not call the fetcher. nil: nobody asks.
	Renewed func()
}

// Check tells what is wrong with what every fetcher needs, and fills in Bytes.
func (e *Env) Check() error {
	if err := validate(e.Queues); err != nil {
		return err
	}
	if rdb, ok := e.Redis.(*redis.Client); e.Redis == nil || ok && rdb == nil {
		return errors.New("fetch: Redis is nil, expected a client")
	}
	if e.Bytes < 0 {
		return fmt.Errorf("fetch: Bytes is %d, expected 1 or more, or 0 for %d", e.Bytes, limits.Bytes)
	}
	e.Bytes = cmp.Or(e.Bytes, limits.Bytes)
	return nil
}

// rand is a source that differs between the capsules of a fleet.
func (e *Env) rand() *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(e.Identity + "#" + e.Capsule))
	return rand.New(rand.NewPCG(h.Sum64(), 0))
}

// mutex guards what a fetcher knows. It is never held during a call.
type mutex struct{ sync.Mutex }

// unlocked runs fn, which takes its time, without the lock.
func (m *mutex) unlocked(fn func()) {
	m.Unlock()
	defer m.Lock()
	fn()
}

// Factory makes the Fetcher of a capsule; it must not touch Redis.
type Factory func(Env) (Fetcher, error)

// FencedError is returned once by Take, Settle or Renew after a rescuer has
// taken over: every unit with Unit.Incarnation <= Incarnation now belongs to
// somebody else. The fetcher has already begun a new incarnation.
type FencedError struct {
	ID          string // fetcher id that was fenced
	Incarnation uint64
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("fetcher %s was fenced: a rescuer has put its units back", e.ID)
}
