package fetchtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/internal/words"
)

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
	time.Sleep(r.PauseLag)
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
		first[i] = words.Text(list[i])
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

// rescued compares a queue into which units of a dead fetcher have been put back.
func (r *rig) rescued(what string, got, want []string) {
	r.t.Helper()
	if r.RescueToBack {
		got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	}
	equal(r.t, what, got, want)
}
