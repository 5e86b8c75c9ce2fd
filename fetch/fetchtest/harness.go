// Package fetchtest proves that a fetch.Fetcher keeps its promises. There are
// two levels:
//
//   - Delivery: order, shares, bytes, waiting, settling, closing. fetch.NewBasic
//     passes it.
//   - Crash: nothing is lost, whatever dies. Real processes are killed at each
//     step, replies are lost, leases run out, Redis forgets. It needs a fetcher
//     that keeps units in Redis until they are settled, as fetch.NewReliable does.
//
// Both need a redis-server in the PATH. The Crash level starts the test binary
// again as a child process, so its TestMain calls Main:
//
//	var mine = fetchtest.Harness{Name: "mine", New: mypkg.NewFetcher}
//
//	func TestMain(m *testing.M) { fetchtest.Main(m, mine) }
//
//	func TestMine(t *testing.T) {
//		t.Run("delivery", func(t *testing.T) { fetchtest.Delivery(t, mine) })
//		t.Run("crash", func(t *testing.T) { fetchtest.Crash(t, mine) })
//	}
//
// A fetcher of another wire format says in its Harness how jobs are pushed and
// found; the zero functions are those of Sidekiq's format.
package fetchtest

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/rescue"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// Harness tells the suite about one kind of fetcher.
type Harness struct {
	// Name is unique among the harnesses of a test binary; child processes are
	// told by it which one they are.
	Name string

	// New makes the fetcher under test.
	New fetch.Factory

	// Key is the fetcher's name of a key of Sidekiq or troupe, which the zero functions
	// below use. nil: the same.
	Key func(key string) string

	// Server starts a Redis for one test. nil: a database of a shared one.
	Server func(t testing.TB) *redistest.Server

	// TwoSteps: a move to retry or dead is no single step, since the two places are
	// on different servers. A process that is killed in between leaves the job in
	// the new place and in progress.
	TwoSteps bool

	// Stays: no move names a queue, since jobs of this system stay in their own.
	Stays bool

	// ManyWaits: one fetcher has several waits on one queue. What they bring may
	// come, and go back, in another order than it was pushed in.
	ManyWaits bool

	// RescueToBack: what a dead fetcher held comes behind what waits, and in any order.
	RescueToBack bool

	// PauseLag is how long after it a pause is seen. 0: by the next Take.
	PauseLag time.Duration

	// Push appends payloads to a queue, the first to be fetched first. nil: LPUSH.
	Push func(ctx context.Context, rdb *redis.Client, queue string, payloads ...[]byte) error

	// Queued lists what waits in a queue, the next to be fetched first. nil: LRANGE.
	Queued func(ctx context.Context, rdb *redis.Client, queue string) ([][]byte, error)

	// Placed lists what stands in the retry, schedule or dead set, by score.
	// nil: Sidekiq's sorted sets.
	Placed func(ctx context.Context, rdb *redis.Client, to fetch.Destination) ([]redis.Z, error)

	// Listed lists the queues that are known to exist. nil: the set `queues`.
	Listed func(ctx context.Context, rdb *redis.Client) ([]string, error)

	// Pause makes a queue one from which nothing is fetched, or ends that. nil: the
	// set `paused`.
	Pause func(ctx context.Context, rdb *redis.Client, queue string, paused bool) error

	// Spoil puts a key of a wrong type where a queue is kept, and names it. nil: a string.
	Spoil func(ctx context.Context, rdb *redis.Client, queue string) (key string, err error)

	// Rescue makes one round of putting back what dead fetchers held. It is
	// called again and again. nil: the one of Sidekiq's format.
	Rescue func(ctx context.Context, rdb *redis.Client, lease time.Duration) error
}

// withDefaults fills the zero functions.
func (h Harness) withDefaults(t testing.TB) Harness {
	t.Helper()
	if h.Name == "" || h.New == nil {
		t.Fatalf("fetchtest: harness %q lacks its Name or New", h.Name)
	}
	if h.Key == nil {
		h.Key = func(key string) string { return key }
	}
	if h.Push == nil {
		h.Push = h.push
	}
	if h.Queued == nil {
		h.Queued = h.queued
	}
	if h.Placed == nil {
		h.Placed = h.placed
	}
	if h.Listed == nil {
		h.Listed = func(ctx context.Context, rdb *redis.Client) ([]string, error) {
			return rdb.SMembers(ctx, h.Key(keys.Queues)).Result()
		}
	}
	if h.Pause == nil {
		h.Pause = func(ctx context.Context, rdb *redis.Client, queue string, paused bool) error {
			if paused {
				return rdb.SAdd(ctx, h.Key(keys.Paused), queue).Err()
			}
			return rdb.SRem(ctx, h.Key(keys.Paused), queue).Err()
		}
	}
	if h.Spoil == nil {
		h.Spoil = func(ctx context.Context, rdb *redis.Client, queue string) (string, error) {
			key := h.Key(keys.Queue(queue))
			return key, rdb.Set(ctx, key, "not a list", 0).Err()
		}
	}
	if h.Rescue == nil {
		h.Rescue = h.rescueOnce
	}
	return h
}

func (h *Harness) push(ctx context.Context, rdb *redis.Client, queue string, payloads ...[]byte) error {
	values := make([]any, len(payloads))
	for i, p := range payloads {
		values[i] = p
	}
	return rdb.LPush(ctx, h.Key(keys.Queue(queue)), values...).Err()
}

func (h *Harness) queued(ctx context.Context, rdb *redis.Client, queue string) ([][]byte, error) {
	list, err := rdb.LRange(ctx, h.Key(keys.Queue(queue)), 0, -1).Result()
	out := make([][]byte, len(list))
	for i, p := range list {
		out[len(list)-1-i] = []byte(p)
	}
	return out, err
}

func (h *Harness) placed(ctx context.Context, rdb *redis.Client, to fetch.Destination) ([]redis.Z, error) {
	key := map[fetch.Destination]string{fetch.ToRetry: keys.Retry, fetch.ToSchedule: keys.Schedule, fetch.ToDead: keys.Dead}[to]
	return rdb.ZRangeWithScores(ctx, h.Key(key), 0, -1).Result()
}

func (h *Harness) rescueOnce(ctx context.Context, rdb *redis.Client, lease time.Duration) error {
	rdb = redis.NewClient(rdb.Options())
	defer func() { _ = rdb.Close() }()
	redisconn.MapKeys(rdb, h.Key)
	r, err := rescue.New(rescue.Config{Redis: rdb, Lease: lease, Logger: zerolog.Nop()})
	if err != nil {
		return err
	}
	_, err = r.Rescue(ctx)
	return err
}
