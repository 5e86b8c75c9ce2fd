package actors_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/fetch"
)

// walk is a job that goes through the numbers below N.
type walk struct {
	N int `arg:"0"`
}

func (walk) Class() string { return "Walk" }

// walker performs walks and notes what it did.
type walker struct {
	each func(ctx context.Context, jid string, i int) error // nil: nothing
	opts troupe.IterableOptions[walk]

	mu   sync.Mutex
	ran  map[string][]int // items by jid
	runs map[string]int   // executions by jid
}

func (w *walker) registry() *troupe.Registry {
	w.ran, w.runs = map[string][]int{}, map[string]int{}
	var r troupe.Registry
	troupe.HandleIterable(&r, w.items, w.item, w.opts)
	return &r
}

func (w *walker) items(_ context.Context, job *troupe.Job[walk], from *int, yield func(int, int) bool) error {
	w.mu.Lock()
	w.runs[job.JID]++
	w.mu.Unlock()
	list := make([]int, job.Args.N)
	for i := range list {
		list[i] = i
	}
	return troupe.YieldSlice(list, from, yield)
}

func (w *walker) item(ctx context.Context, job *troupe.Job[walk], i int) error {
	w.mu.Lock()
	w.ran[job.JID] = append(w.ran[job.JID], i)
	w.mu.Unlock()
	if w.each != nil {
		return w.each(ctx, job.JID, i)
	}
	return nil
}

func (w *walker) itemsOf(jid string) []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.ran[jid])
}

// reached tells whether the job has come to item i.
func (w *walker) reached(jid string, i int) func() bool {
	return func() bool { return slices.Contains(w.itemsOf(jid), i) }
}

// sleeping is an item that takes so long.
func sleeping(d time.Duration) func(context.Context, string, int) error {
	return func(context.Context, string, int) error { time.Sleep(d); return nil }
}

func upTo(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

// state is the hash of an iterable job without its run time.
func state(t *testing.T, rdb redis.UniversalClient, jid string) map[string]string {
	t.Helper()
	got, err := rdb.HGetAll(ctx, "it-"+jid).Result()
	if err != nil {
		t.Fatal(err)
	}
	delete(got, "rt")
	return got
}

func wantState(t *testing.T, rdb redis.UniversalClient, jid string, ex, c int) {
	t.Helper()
	want := map[string]string{"ex": strconv.Itoa(ex), "c": strconv.Itoa(c)}
	if c > 0 {
		want["t_done"] = strconv.Itoa(c)
	}
	if got := state(t, rdb, jid); !maps.Equal(got, want) {
		t.Errorf("it-%s is %v, want execution %d at %d, and as many items done", jid, got, ex, c)
	}
}

func one(fetcher fetch.Factory) []actors.Capsule {
	return []actors.Capsule{{Concurrency: 1, Fetch: fetcher}}
}

// compact is p written field by field, as every edited job is.
func compact(t *testing.T, p *troupe.Payload) string {
	t.Helper()
	q := p.Clone()
	q.SetInt("mark", 1)
	q.Delete("mark")
	return string(q.Bytes())
}

var errHeld = errors.New("held back by the test")
