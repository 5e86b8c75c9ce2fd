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
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/cut"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redistest"
)

// Harness tells the suite about one kind of fetcher.
type Harness struct {
	// Name is unique among the harnesses of a test binary; child processes are
	// told by it which one they are.
	Name string

	// New makes the fetcher under test.
	New fetch.Factory

	// Server starts a Redis for one test. nil: a database of a shared one.
	Server func(t testing.TB) *redistest.Server

	// TwoSteps: a move to retry or dead is no single step, since the two places are
	// on different servers. A process that is killed in between leaves the job in
	// the new place and in progress.
	TwoSteps bool

	// ManyWaits: one fetcher has several waits on one queue. What they bring may
	// come, and go back, in another order than it was pushed in.
	ManyWaits bool

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
	// called again and again. nil: fetch.Rescuer.
	Rescue func(ctx context.Context, rdb *redis.Client, lease time.Duration) error
}

// withDefaults fills the zero functions.
func (h Harness) withDefaults(t testing.TB) Harness {
	t.Helper()
	if h.Name == "" || h.New == nil {
		t.Fatalf("fetchtest: harness %q lacks its Name or New", h.Name)
	}
	if h.Push == nil {
		h.Push = push
	}
	if h.Queued == nil {
		h.Queued = queued
	}
	if h.Placed == nil {
		h.Placed = placed
	}
	if h.Listed == nil {
		h.Listed = func(ctx context.Context, rdb *redis.Client) ([]string, error) {
			return rdb.SMembers(ctx, keys.Queues).Result()
		}
	}
	if h.Pause == nil {
		h.Pause = func(ctx context.Context, rdb *redis.Client, queue string, paused bool) error {
			if paused {
				return rdb.SAdd(ctx, keys.Paused, queue).Err()
			}
			return rdb.SRem(ctx, keys.Paused, queue).Err()
		}
	}
	if h.Spoil == nil {
		h.Spoil = func(ctx context.Context, rdb *redis.Client, queue string) (string, error) {
			return keys.Queue(queue), rdb.Set(ctx, keys.Queue(queue), "not a list", 0).Err()
		}
	}
	if h.Rescue == nil {
		h.Rescue = rescue
	}
	return h
}

func push(ctx context.Context, rdb *redis.Client, queue string, payloads ...[]byte) error {
	values := make([]any, len(payloads))
	for i, p := range payloads {
		values[i] = p
	}
	return rdb.LPush(ctx, keys.Queue(queue), values...).Err()
}

func queued(ctx context.Context, rdb *redis.Client, queue string) ([][]byte, error) {
	list, err := rdb.LRange(ctx, keys.Queue(queue), 0, -1).Result()
	out := make([][]byte, len(list))
	for i, p := range list {
		out[len(list)-1-i] = []byte(p)
	}
	return out, err
}

func placed(ctx context.Context, rdb *redis.Client, to fetch.Destination) ([]redis.Z, error) {
	key := map[fetch.Destination]string{fetch.ToRetry: keys.Retry, fetch.ToSchedule: keys.Schedule, fetch.ToDead: keys.Dead}[to]
	return rdb.ZRangeWithScores(ctx, key, 0, -1).Result()
}

func rescue(ctx context.Context, rdb *redis.Client, lease time.Duration) error {
	r, err := fetch.NewRescuer(fetch.RescuerConfig{Redis: rdb, Lease: lease, Logger: zerolog.Nop()})
	if err != nil {
		return err
	}
	_, err = r.Rescue(ctx)
	return err
}

// rig is one test's database, clients and fetchers.
type rig struct {
	Harness
	t   testing.TB
	ctx context.Context
	rdb *redis.Client // the test's own view, without faults
	url string
	net *faults // between the fetchers and Redis
}

// setUp makes a rig on a clean database; its context ends with the test or
// after five minutes, whichever is first.
func setUp(t testing.TB, h Harness) *rig {
	t.Helper()
	if h.Server != nil {
		server := h.Server(t)
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1})
		t.Cleanup(func() { _ = rdb.Close() })
		return setUpAt(t, h, rdb, server.URL(0))
	}
	rdb, url := redistest.New(t)
	return setUpAt(t, h, rdb, url)
}

func setUpAt(t testing.TB, h Harness, rdb *redis.Client, url string) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return &rig{Harness: h.withDefaults(t), t: t, ctx: ctx, rdb: rdb, url: url, net: &faults{}}
}

// client is what a daemon gives its fetcher, with the faults of net in between.
func client(url string, retries int, net *faults) (*redis.Client, error) {
	opt, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	opt.MaxRetries, opt.Protocol = retries, 2
	opt.ReadTimeout = 5 * time.Second
	opt.PipelinePoolSize = -1 // else the first pipeline begins with the handshake of a connection, where faults strike
	opt.Dialer = net.dialer
	return redis.NewClient(opt), nil
}

// env is the ordinary environment of a fetcher.
func (r *rig) env(capsule string, queues fetch.Queues) fetch.Env {
	r.t.Helper()
	rdb, err := client(r.url, -1, r.net)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = rdb.Close() })
	return fetch.Env{
		Redis: rdb, Identity: "fetchtest:1:0123456789ab", Capsule: capsule,
		Queues: queues, Lease: 30 * time.Second, Logger: zerolog.Nop(),
	}
}

// start makes and opens a fetcher; the test closes it.
func (r *rig) start(env fetch.Env) fetch.Fetcher {
	r.t.Helper()
	f, err := r.New(env)
	if err != nil {
		r.t.Fatalf("new fetcher: %v", err)
	}
	r.must("open", f.Open(r.ctx))
	return f
}

func (r *rig) fetcher(queues fetch.Queues) fetch.Fetcher {
	r.t.Helper()
	return r.start(r.env("default", queues))
}

func (r *rig) must(what string, err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatalf("%s: %v", what, err)
	}
}

// push makes n payloads that name their queue and number, and pushes them.
func (r *rig) push(queue string, n int) []string {
	r.t.Helper()
	names := make([]string, n)
	payloads := make([][]byte, n)
	for i := range n {
		names[i] = fmt.Sprintf("%s %d", queue, i)
		payloads[i] = []byte(names[i])
	}
	r.must("push", r.Push(r.ctx, r.rdb, queue, payloads...))
	return names
}

func (r *rig) pause(queue string, paused bool) {
	if err := r.Pause(r.ctx, r.rdb, queue, paused); err != nil {
		r.t.Errorf("pause %s: %v", queue, err)
	}
}

// spoil makes a queue unusable and returns the way back.
func (r *rig) spoil(queue string) (restore func()) {
	r.t.Helper()
	key, err := r.Spoil(r.ctx, r.rdb, queue)
	r.must("spoil queue", err)
	return func() {
		r.t.Helper()
		r.must("restore queue", r.rdb.Del(r.ctx, key).Err())
	}
}

func (r *rig) take(f fetch.Fetcher, n int, acks ...fetch.Unit) []fetch.Unit {
	r.t.Helper()
	units, err := f.Take(r.ctx, n, acks)
	r.must("take", err)
	if len(units) > n {
		r.t.Fatalf("take: %d units, asked for %d", len(units), n)
	}
	return units
}

// takeAll takes batches of n until a take comes back empty.
func (r *rig) takeAll(f fetch.Fetcher, n int) []fetch.Unit {
	r.t.Helper()
	var all []fetch.Unit
	for {
		units := r.take(f, n)
		if len(units) == 0 {
			return all
		}
		all = append(all, units...)
	}
}

func (r *rig) settle(f fetch.Fetcher, moves ...fetch.Move) {
	r.t.Helper()
	results, err := f.Settle(r.ctx, moves)
	r.must("settle", err)
	if len(results) != len(moves) {
		r.t.Fatalf("settle: %d results of %d moves", len(results), len(moves))
	}
	for i, result := range results {
		if result != fetch.Moved {
			r.t.Errorf("settle: result of move %d (%s %q) is %d, expected Moved", i, moves[i].To, moves[i].Unit.Payload, result)
		}
	}
}

func (r *rig) close(f fetch.Fetcher) {
	r.t.Helper()
	left, err := f.Close(r.ctx)
	r.must("close", err)
	if left != 0 {
		r.t.Errorf("close: %d units left, expected none", left)
	}
}

func (r *rig) queued(queue string) []string {
	r.t.Helper()
	list, err := r.Queued(r.ctx, r.rdb, queue)
	r.must("list queue", err)
	out := make([]string, len(list))
	for i, p := range list {
		out[i] = string(p)
	}
	return out
}

func (r *rig) placed(to fetch.Destination) []redis.Z {
	r.t.Helper()
	list, err := r.Placed(r.ctx, r.rdb, to)
	r.must("list set", err)
	return list
}

// until calls f until it is true, for at most a minute: some of it is the start of
// processes, which a loaded machine keeps waiting.
func (r *rig) until(what string, f func() bool) {
	r.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !f() {
		if time.Now().After(deadline) {
			r.t.Fatalf("not within a minute: %s", what)
		}
		time.Sleep(2 * time.Millisecond) // between two looks at another process
	}
}

func payloads(units []fetch.Unit) []string {
	out := make([]string, len(units))
	for i, u := range units {
		out[i] = string(u.Payload)
	}
	return out
}

// short is the beginning of a list, for a message.
func short(list []string) string {
	more := ""
	if len(list) > 12 {
		more = fmt.Sprintf(" and %d more", len(list)-12)
	}
	first := make([]string, min(12, len(list)))
	for i := range first {
		first[i] = cut.Text(list[i])
	}
	return fmt.Sprintf("%q%s", first, more)
}

// equal compares two lists, in order.
func equal(t testing.TB, what string, got, want []string) {
	t.Helper()
	if strings.Join(got, "\x00") != strings.Join(want, "\x00") || len(got) != len(want) {
		t.Errorf("%s: got %d: %s, expected %d: %s", what, len(got), short(got), len(want), short(want))
	}
}
