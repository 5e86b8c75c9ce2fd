package actors_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// A callback that leaves its goroutine has no say; the jobs go where they would
// have gone without it, and the only slot goes on.
func TestARetryCallbackThatExitsHasNoSay(t *testing.T) {
	rdb, log := testkit.Redis(t), new(harness.Buffer)
	fails := troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return errors.New("no") })
	var done atomic.Int64
	var r troupe.Registry
	troupe.HandleClass(&r, "Waits", fails, troupe.Options{
		RetryIn: func(int, error, *troupe.Payload) troupe.Delay { runtime.Goexit(); return troupe.KillDelay },
	})
	troupe.HandleClass(&r, "Dies", fails, troupe.Options{
		Exhausted: func(*troupe.Payload, error) bool { runtime.Goexit(); return true },
	})
	troupe.HandleClass(&r, "Fine", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { done.Add(1); return nil }))
	k := testkit.Start(t, actors.Config{
		Redis: rdb, Registry: &r, Logger: zerolog.New(log), Capsules: []actors.Capsule{{Concurrency: 1}},
	})
	for range 3 {
		k.PushClass("Waits", nil)
		k.PushClass("Dies", nil, client.Retry(0))
		k.PushClass("Fine", nil)
	}
	k.Await("all are where they belong", func() bool {
		return done.Load() == 3 && size(t, rdb, "retry") == 3 && size(t, rdb, "dead") == 3 && inProgress(t, rdb) == 0
	})
	k.Stop()
	for text, want := range map[string]int{`"a retry callback failed"`: 6, "runtime.Goexit": 6, `"job failed"`: 6, "crashed": 0} {
		if n := log.Count(text); n != want {
			t.Errorf("%d lines with %s, want %d", n, text, want)
		}
	}
}

// What is stored of a failure was fetched, whatever the handler has made of it.
func TestAFailedJobIsStoredAsItWasFetched(t *testing.T) {
	for name, edit := range map[string]func(*troupe.Payload){
		"not edited":  func(*troupe.Payload) {},
		"a new value": func(p *troupe.Payload) { p.Set("args", []byte(`["edited"]`)) },
		"a new field": func(p *troupe.Payload) { p.SetInt("edited", 1) },
		"a field less": func(p *troupe.Payload) {
			p.Delete("args")
		},
		"another job": func(p *troupe.Payload) { _ = p.UnmarshalJSON([]byte(`{"class":"Edited","args":["fetched"]}`)) },
		"its copy":    func(p *troupe.Payload) { *p = *p.Clone() },
		"edited, then panics": func(p *troupe.Payload) {
			p.Set("args", []byte(`["edited"]`))
			panic("too late")
		},
	} {
		t.Run(name, func(t *testing.T) {
			rdb := testkit.Redis(t)
			var r troupe.Registry
			troupe.HandleClass(&r, "Fails", troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error {
				edit(p)
				return errors.New("no")
			}))
			k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r})
			k.PushClass("Fails", []any{"fetched", 1.5}, client.Set("x", 7))
			k.Await("it is stored", func() bool { return size(t, rdb, "retry") == 1 })
			stored := rdb.ZRange(ctx, "retry", 0, -1).Val()[0]
			if !strings.Contains(stored, `"args":["fetched",1.5]`) || !strings.Contains(stored, `"x":7`) ||
				!strings.Contains(stored, `"class":"Fails"`) || strings.Contains(stored, "edited") {
				t.Errorf("stored: %s", stored)
			}
		})
	}
}

// The wait of the daemon is for classes that have none of their own.
func TestRetryInOfTheDaemon(t *testing.T) {
	in := func(d time.Duration) func(int, error, *troupe.Payload) troupe.Delay {
		return func(int, error, *troupe.Payload) troupe.Delay { return troupe.Exactly(d) }
	}
	fails := troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return errors.New("no") })
	var r troupe.Registry
	troupe.HandleClass(&r, "Plain", fails)
	troupe.HandleClass(&r, "Own", fails, troupe.Options{RetryIn: in(2 * time.Hour)})
	testkit.Virtual(t, actors.Config{Registry: &r, RetryIn: in(time.Hour)}, func(t *testing.T, k *testkit.Kit) {
		start := time.Now()
		for _, class := range []string{"Plain", "Own", "Unknown"} {
			k.PushClass(class, nil)
		}
		k.Await("all failed", func() bool { return size(t, k.Redis, "retry") == 3 })
		for class, want := range map[string]time.Duration{"Plain": time.Hour, "Own": 2 * time.Hour, "Unknown": 15 * time.Second} {
			for _, e := range k.Redis.ZRangeWithScores(t.Context(), "retry", 0, -1).Val() {
				if !strings.Contains(e.Member.(string), `"`+class+`"`) {
					continue
				}
				wait := time.Duration((e.Score - float64(start.UnixNano())/1e9) * 1e9)
				if wait < want-time.Second || wait > want+15*time.Second {
					t.Errorf("%s waits %v, want %v", class, wait, want)
				}
			}
		}
	})
}
