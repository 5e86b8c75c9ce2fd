package laravel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/limits"
)

// fetcher takes from Laravel's queues. What it has taken is in the reserved set of its queue, as
// the bytes that Laravel would put there, until it is settled or the lease runs out: then any
// worker makes it ready again. It makes one call at a time, with a number that Redis keeps with
// the reply; a call whose reply was lost is repeated and not done twice.
type fetcher struct {
	s      *system
	env    fetch.Env
	rdb    *redis.Client
	cache  *redis.Client // nil if there is none
	names  names
	call   string   // key of the last call and its reply
	queues []string // in the order of their first mention
	rand   *rand.Rand

	turn       chan struct{} // held by who works with what follows
	closed     bool
	opened     bool
	held       map[string]*reservation // by receipt
	receipts   uint64
	stash      []fetch.Unit            // taken and not handed out
	back       []*reservation          // of a fenced incarnation, to be put back
	known      map[string]fetch.Result // of moves: the caller may not know it
	pending    *call                   // whose reply is not known
	number     uint64                  // of the last call
	inc        uint64
	lost       *fetch.FencedError // not told yet
	renewed    time.Time          // by our clock
	unreadable map[int]string     // queues that cannot be read, and why
	signals    signals

	wait waiting
}

// reservation is a job that is reserved.
type reservation struct {
	receipt string
	queue   int
	inc     uint64
	payload []byte
	copy    string // in the reserved set
}

const (
	// callTime is how long Redis keeps the last call: its absence within that time
	// tells that Redis has lost its data.
	callTime = time.Hour
	takeMost = 1000
	moveMost = 500 // of one call
	// closedTime is how long Redis keeps the last call of a closed fetcher: one that was
	// sent before may come late.
	closedTime = 10 * time.Minute
	knownMost  = 10_000
)

var errClosed = errors.New("laravel: the fetcher is closed")

func (s *system) newFetcher(env fetch.Env) (fetch.Fetcher, error) {
	if err := env.Check(); err != nil {
		return nil, err
	}
	own, ok := env.Redis.(*redis.Client)
	if !ok {
		return nil, errCluster
	}
	if env.Lease <= 0 {
		env.Lease = limits.Lease
	}
	f := &fetcher{
		s: s, env: env, rdb: own, names: names(s.Prefix), queues: env.Queues.List().Names(), turn: make(chan struct{}, 1),
		held: map[string]*reservation{}, known: map[string]fetch.Result{}, unreadable: map[int]string{}, inc: 1,
	}
	if err := checkQueues(f.queues); err != nil {
		return nil, err
	}
	if s.Database != nil {
		f.rdb = database(env, own, *s.Database)
	}
	if s.Cache != nil {
		f.cache = database(env, own, s.Cache.Database)
	}
	f.wait.paid = make([]int, len(f.queues))
	f.call = f.names.call(env.Identity + ":" + env.Capsule)
	h := fnv.New64a()
	_, _ = h.Write([]byte(f.call))
	f.rand = rand.New(rand.NewPCG(h.Sum64(), 0)) //nolint:gosec // it shares out queues
	return f, nil
}

// Durable implements fetch.Fetcher.
func (f *fetcher) Durable() bool { return true }

// begin waits until no other call of the fetcher is under way.
func (f *fetcher) begin(ctx context.Context) error {
	select {
	case f.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if f.closed {
		<-f.turn
		return errClosed
	}
	return nil
}

func (f *fetcher) end() { <-f.turn }

// Open implements fetch.Fetcher.
func (f *fetcher) Open(ctx context.Context) error {
	if err := f.begin(ctx); err != nil {
		return err
	}
	defer f.end()
	if f.opened {
		return nil
	}
	if err := f.look(ctx, true); err != nil {
		return err
	}
	if err := f.do(ctx, &call{}); err != nil {
		return err
	}
	f.opened = true
	return nil
}

// Take implements fetch.Fetcher.
func (f *fetcher) Take(ctx context.Context, n int, acks []fetch.Unit) ([]fetch.Unit, error) {
	if err := f.begin(ctx); err != nil {
		return nil, err
	}
	defer f.end()
	if err := f.settled(ctx); err != nil {
		return nil, err
	}
	n = min(max(n, 0), takeMost)
	var moves []move
	for _, u := range acks {
		if j := f.held[u.Receipt]; j != nil {
			moves = append(moves, move{job: j, kind: "a"})
		}
	}
	want := max(0, n-len(f.stash))
	if want > 0 {
		if err := f.look(ctx, false); err != nil {
			return nil, err
		}
	}
	refused, err := f.moveAll(ctx, moves, want)
	if err = cmp.Or(err, refused); err != nil {
		return nil, err
	}
	if err := f.fenced(); err != nil {
		return nil, err
	}
	n = min(n, len(f.stash))
	units := slices.Clone(f.stash[:n])
	f.stash = slices.Delete(f.stash, 0, n)
	return units, nil
}

// Renew implements fetch.Fetcher.
func (f *fetcher) Renew(ctx context.Context) error {
	if err := f.begin(ctx); err != nil {
		return err
	}
	defer f.end()
	if err := f.settled(ctx); err != nil {
		return err
	}
	if err := f.renew(ctx); err != nil {
		return err
	}
	return f.fenced()
}

// Close implements fetch.Fetcher.
func (f *fetcher) Close(ctx context.Context) (left int, err error) {
	if err := f.begin(ctx); errors.Is(err, errClosed) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	defer f.end()
	if f.opened {
		if err := f.settled(ctx); err != nil {
			return 0, err
		}
		var moves []move
		for _, u := range slices.Backward(f.stash) {
			if j := f.held[u.Receipt]; j != nil {
				moves = append(moves, move{job: j, kind: "q", text: j.payload})
			}
		}
		f.stash = nil
		refused, err := f.moveAll(ctx, moves, 0)
		if err = cmp.Or(err, refused); err != nil {
			return 0, err
		}
		if err := f.rdb.Expire(ctx, f.call, closedTime).Err(); err != nil {
			return 0, err
		}
	}
	f.closed = true
	f.endWait(ctx)
	if f.rdb != f.env.Redis {
		err = f.rdb.Close()
	}
	if f.cache != nil && f.cache != f.env.Redis {
		err = errors.Join(err, f.cache.Close())
	}
	return len(f.held), err
}

// unit enters a job that was taken.
func (f *fetcher) unit(queue int, payload []byte, copied string) {
	if len(f.held) == 0 {
		f.renewed = time.Now()
	}
	f.receipts++
	j := &reservation{receipt: strconv.FormatUint(f.receipts, 10), queue: queue, inc: f.inc, payload: payload, copy: copied}
	f.held[j.receipt] = j
	f.stash = append(f.stash, fetch.Unit{Queue: f.queues[queue], Payload: payload, Receipt: j.receipt, Incarnation: j.inc})
}

// beginRow is the beginning of the failed_jobs row that the script writes for bytes that are no job.
func (f *fetcher) beginRow(queue string) string {
	r := failedRow{ID: job.NewID(), Connection: f.s.Connection, Queue: queue, FailedAt: time.Now().Unix(), Exception: errNotAJob.Error()}
	return strings.TrimSuffix(string(r.head()), "}\n") + `,"part":`
}

// report logs that a queue cannot be read, once for each reason.
func (f *fetcher) report(queue int, text string) {
	if f.unreadable[queue] != text {
		f.unreadable[queue] = text
		f.env.Logger.Error().Str("queue", f.queues[queue]).Str("error", text).Msg("nothing can be taken from a queue")
	}
}

func seconds(t time.Time) string { return fmt.Sprintf("%.6f", float64(t.UnixMicro())/1e6) }
