package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// someTime is in the future, beyond the year of the tests.
const someTime = 1995225036.2125871

// entry adds a member to a set and finds it again.
func entry(t *testing.T, rdb *redis.Client, set *inspect.JobSet, raw string) *inspect.SortedEntry {
	t.Helper()
	add(t, rdb, set.Name, someTime, raw)
	for e, err := range set.Each(t.Context()) {
		harness.OK(t, err)
		if e.Raw == raw {
			return e
		}
	}
	t.Fatalf("%s is not in the set", raw)
	return nil
}

func TestRetryCounts(t *testing.T) {
	for _, tt := range []struct{ before, after string }{
		{`,"retry_count":0`, `,"retry_count":-1`},
		{`,"retry_count":4`, `,"retry_count":3`},
		{`,"retry_count":-1`, `,"retry_count":-2`}, // as Ruby has it
		{``, ``},
		{`,"retry_count":null`, `,"retry_count":null`},
		{`,"retry_count":"3"`, `,"retry_count":2`}, // Ruby loses the job here
	} {
		i, rdb, _ := start(t)
		raw := `{"retry":true,"queue":"a","class":"X","args":[1e3,"é<\u0001"],"jid":"j"` + tt.before + `,"failed_at":1.50,"created_at":1.5,"enqueued_at":2.25,"custom":{"b" :1}}`
		e := entry(t, rdb, i.RetrySet, raw)
		if got := harness.Must(e.Retry(t.Context()))(t); got != inspect.Done {
			t.Fatalf("got %v", got)
		}
		want := map[string]any{
			"queues":  []string{"a"},
			"queue:a": []string{strings.Replace(strings.Replace(raw, "2.25", `"now"`, 1), tt.before, tt.after, 1)},
		}
		if diff := cmp.Diff(want, snapshot(t, rdb)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.before, diff)
		}
		if got := harness.Must(e.Retry(t.Context()))(t); got != inspect.Gone || rdb.LLen(t.Context(), "queue:a").Val() != 1 {
			t.Errorf("a second retry: %v", got)
		}
	}
}

func TestAddToQueueKeepsTheCountAndIgnoresAt(t *testing.T) {
	i, rdb, _ := start(t)
	e := entry(t, rdb, i.RetrySet, `{"class":"X","args":[],"retry_count":2,"at":9e9,"jid":"j","created_at":1.5}`)
	if got := harness.Must(e.AddToQueue(t.Context()))(t); got != inspect.Done {
		t.Fatalf("got %v", got)
	}
	want := map[string]any{ // the client's defaults come first, as in Ruby
		"queues":        []string{"default"},
		"queue:default": []string{`{"retry":true,"queue":"default","class":"X","args":[],"retry_count":2,"jid":"j","created_at":1.5,"enqueued_at":"now"}`},
	}
	if diff := cmp.Diff(want, snapshot(t, rdb)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Each operation on an entry that has changed or gone does nothing at all.
func TestOperationsNameAnEntryByItsBytes(t *testing.T) {
	for name, op := range map[string]func(context.Context, *inspect.SortedEntry) (inspect.Outcome, error){
		"delete": func(ctx context.Context, e *inspect.SortedEntry) (inspect.Outcome, error) { return e.Delete(ctx) },
		"retry":  func(ctx context.Context, e *inspect.SortedEntry) (inspect.Outcome, error) { return e.Retry(ctx) },
		"add":    func(ctx context.Context, e *inspect.SortedEntry) (inspect.Outcome, error) { return e.AddToQueue(ctx) },
		"kill":   func(ctx context.Context, e *inspect.SortedEntry) (inspect.Outcome, error) { return e.Kill(ctx) },
		"reschedule": func(ctx context.Context, e *inspect.SortedEntry) (inspect.Outcome, error) {
			return e.Reschedule(ctx, time.Unix(9, 0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			i, rdb, _ := start(t)
			e := entry(t, rdb, i.RetrySet, failed(1, "a", 0))
			// one with the same score and jid, failed once more, and a neighbour
			harness.OK(t, rdb.ZRem(t.Context(), "retry", e.Raw).Err())
			add(t, rdb, "retry", e.Score, failed(1, "a", 1), failed(2, "a", 0))
			before := snapshot(t, rdb)
			if got := harness.Must(op(t.Context(), e))(t); got != inspect.Gone {
				t.Errorf("got %v", got)
			}
			if diff := cmp.Diff(before, snapshot(t, rdb)); diff != "" {
				t.Errorf("-before +after:\n%s", diff)
			}
			add(t, rdb, "retry", e.Score, e.Raw)
			if got := harness.Must(op(t.Context(), e))(t); got != inspect.Done {
				t.Errorf("got %v", got)
			}
			for n, raw := range []string{failed(1, "a", 1), failed(2, "a", 0)} {
				if score, err := rdb.ZScore(t.Context(), "retry", raw).Result(); err != nil || score != e.Score {
					t.Errorf("neighbour %d: %v, %v", n, score, err)
				}
			}
		})
	}
}

func TestRescheduleMovesTheScoreOnly(t *testing.T) {
	i, rdb, _ := start(t)
	raw := `{ "class":"X","args":[1E3] }` // not as Ruby would write it
	e := entry(t, rdb, i.ScheduledSet, raw)
	wakeups := rdb.Subscribe(t.Context(), "troupe:wakeup")
	defer wakeups.Close()
	harness.Must(wakeups.Receive(t.Context()))(t)
	at := time.Unix(1695225999, 123456700)
	for range 2 { // the same time again is no other outcome
		if got := harness.Must(e.Reschedule(t.Context(), at))(t); got != inspect.Done {
			t.Errorf("got %v", got)
		}
	}
	if got := snapshot(t, rdb); fmt.Sprint(got) != `map[schedule:[1695225999.1234567 `+raw+`]]` {
		t.Errorf("got %v", got)
	}
	harness.Must(wakeups.ReceiveMessage(t.Context()))(t)
	if _, err := e.Reschedule(t.Context(), time.Unix(-1, 0)); err == nil {
		t.Error("a negative score: no error")
	}
}

func TestKillKeepsTheBytesAndTheLimits(t *testing.T) {
	raw := "\xff not a job"
	for _, tt := range []struct {
		name string
		set  func(*inspect.Inspector)
		want int
	}{
		{"defaults", func(*inspect.Inspector) {}, 9},
		{"number", func(i *inspect.Inspector) { i.DeadMax = 5 }, 4},
		{"age", func(i *inspect.Inspector) { i.DeadTimeout = time.Hour }, 4},
		{"unbounded", func(i *inspect.Inspector) { i.DeadMax, i.DeadTimeout = -1, -1 }, 9},
	} {
		i, rdb, _ := start(t, tt.set)
		now := time.Now()
		for n, age := range []time.Duration{0, 1, 30, 2 * 60, 3 * 60, 4 * 60, 181 * 24 * 60, 1e6} {
			add(t, rdb, "dead", scores.Of(now.Add(-age*time.Minute)), failed(n, "a", 3))
		}
		e := entry(t, rdb, i.RetrySet, raw)
		if got := harness.Must(e.Kill(t.Context()))(t); got != inspect.Done {
			t.Fatalf("got %v", got)
		}
		if n := rdb.ZCard(t.Context(), "dead").Val(); int(n) != tt.want || rdb.Exists(t.Context(), "retry").Val() != 0 {
			t.Errorf("%s: %d are dead, want %d", tt.name, n, tt.want)
		}
		if score, err := rdb.ZScore(t.Context(), "dead", raw).Result(); err != nil || now.Sub(time.UnixMicro(int64(score*1e6))).Abs() > time.Minute {
			t.Errorf("%s: died at %v, %v", tt.name, score, err)
		}
	}
}

// Killing what is dead moves it to now, and does not lose it.
func TestKillInTheDeadSet(t *testing.T) {
	i, rdb, _ := start(t)
	e := entry(t, rdb, i.DeadSet, failed(1, "a", 3))
	if got := harness.Must(e.Kill(t.Context()))(t); got != inspect.Done {
		t.Errorf("got %v", got)
	}
	if got := fmt.Sprint(snapshot(t, rdb)); got != "map[dead:[now "+e.Raw+"]]" {
		t.Errorf("got %v", got)
	}
}

func TestWhatCannotBeQueuedStays(t *testing.T) {
	boom := errors.New("boom")
	fails := client.WithMiddleware(func(next client.PushFunc) client.PushFunc {
		return func(ctx context.Context, p *troupe.Payload) error {
			switch p.Class() {
			case "Fails":
				return boom
			case "Panics":
				panic(boom)
			}
			return next(ctx, p)
		}
	})
	for _, tt := range []struct {
		raw  string
		want any
	}{
		{"{", new(*troupe.PayloadError)},
		{"[1]", new(*troupe.PayloadError)},
		{`{"class":"X","args":[],"queue":""}`, new(*client.FieldError)},
		{`{"class":"Fails","args":[]}`, new(*client.MiddlewareError)},
		{`{"class":"Panics","args":[]}`, new(*troupe.PanicError)},
		{`{"class":"X","args":[],"queue":"broken"}`, nil},
	} {
		rdb, _ := redistest.New(t)
		i := inspect.New(rdb)
		i.Client = client.New(rdb, fails)
		harness.OK(t, rdb.Set(t.Context(), "queue:broken", "x", 0).Err())
		e := entry(t, rdb, i.DeadSet, tt.raw)
		before := snapshot(t, rdb)
		got, err := e.Retry(t.Context())
		if err == nil || got != inspect.Gone || tt.want != nil && !errors.As(err, tt.want) {
			t.Errorf("%s: %v, %v", tt.raw, got, err)
		}
		if strings.Contains(tt.raw, "broken") && !contains(err.Error(), "queue broken: WRONGTYPE") {
			t.Errorf("%v", err)
		}
		if diff := cmp.Diff(before, snapshot(t, rdb)); diff != "" {
			t.Errorf("%s (-before +after):\n%s", tt.raw, diff)
		}
	}
}

func TestMiddlewareAndTimestampsOfTheClient(t *testing.T) {
	rdb, _ := redistest.New(t)
	c := client.New(rdb, client.WithTimestamps(troupe.TimestampsMillis), client.WithMiddleware(func(next client.PushFunc) client.PushFunc {
		return func(ctx context.Context, p *troupe.Payload) error {
			if p.Class() == "Stopped" {
				return nil
			}
			p.SetString("queue", "moved")
			return next(ctx, p)
		}
	}))
	i := inspect.New(rdb)
	i.Client = c
	e := entry(t, rdb, i.RetrySet, failed(1, "a", 0))
	if got := harness.Must(e.AddToQueue(t.Context()))(t); got != inspect.Done {
		t.Errorf("got %v", got)
	}
	jobs, _, err := i.Queue("moved").Page(t.Context(), 0, 9)
	harness.OK(t, err)
	if at, isInt := jobs[0].Payload.Int("enqueued_at"); !isInt || at < 1e12 {
		t.Errorf("got %s", jobs[0].Raw)
	}
	e = entry(t, rdb, i.RetrySet, `{"class":"Stopped","args":[]}`)
	for _, want := range []inspect.Outcome{inspect.Stopped, inspect.Gone} {
		if got := harness.Must(e.Retry(t.Context()))(t); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	if rdb.Exists(t.Context(), "retry").Val() != 0 {
		t.Error("a stopped job is still there")
	}
}

// A queue that cannot be listed does not hold up the job.
func TestRetryWithABrokenListOfQueues(t *testing.T) {
	i, rdb, _ := start(t)
	harness.OK(t, rdb.Set(t.Context(), "queues", "x", 0).Err())
	e := entry(t, rdb, i.RetrySet, failed(1, "a", 0))
	if got := harness.Must(e.Retry(t.Context()))(t); got != inspect.Done || !slices.Equal(jids(t, rdb, "a"), []string{jid(1)}) {
		t.Errorf("got %v", got)
	}
}
