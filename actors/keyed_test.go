package actors_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// keyed counts the runs of a class that takes its time.
type keyed struct {
	mu     sync.Mutex
	now    map[string]int
	most   map[string]int
	starts []time.Time
	ran    []string
}

// handle registers class C of limits, whose jobs have a key and a number, and take d.
func (l *keyed) handle(r *troupe.Registry, d time.Duration, limits ...troupe.Limit) {
	l.now, l.most = map[string]int{}, map[string]int{}
	troupe.HandleClass(r, "C", troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error {
		key := fmt.Sprint(string(p.Args()))
		key = key[:5]
		l.mu.Lock()
		l.now[key]++
		l.most[key] = max(l.most[key], l.now[key])
		l.starts = append(l.starts, time.Now())
		l.ran = append(l.ran, string(p.Args()))
		l.mu.Unlock()
		time.Sleep(d)
		l.mu.Lock()
		l.now[key]--
		l.mu.Unlock()
		return nil
	}), troupe.Options{Limits: limits})
}

// No more jobs of a key run at once than its limit says, in the order of their pushes, and each once.
func TestJobsOfAKeyRunOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		var r troupe.Registry
		var l keyed
		l.handle(&r, 20*time.Millisecond, troupe.Limit{Name: "tenant", AtOnce: 1, By: "0"})
		held := 0
		k := testkit.Start(t, actors.Config{Redis: mem.Client, Registry: &r, Capsules: []actors.Capsule{{Concurrency: 8}}})
		k.Daemon.Subscribe(func(e event.Event) {
			if e, ok := e.(event.JobHeld); ok && e.Rule != "" {
				held++
			}
		})
		began := time.Now()
		for i := range 60 {
			_, err := client.New(mem.Client).PushClass(ctx, "C", []any{fmt.Sprint("t", i%3), i})
			harness.OK(t, err)
		}
		k.Await("all done", func() bool { return k.Stats().Processed == 60 && k.Stats().Busy == 0 })
		took := time.Since(began)
		k.Stop()
		harness.Equal(t, "runs", len(l.ran), 60)
		harness.Equal(t, "most of a key at once", fmt.Sprint(l.most), `map[["t0":1 ["t1":1 ["t2":1]`)
		if took > 800*time.Millisecond {
			t.Errorf("20 jobs of 20 ms one after another took %v", took)
		}
		if held == 0 {
			t.Error("no event tells of a held job")
		}
		harness.Equal(t, "keys left", len(mem.Client.Keys(ctx, "troupe:held*").Val()), 0)
	})
}

// A rate is kept to the token, and its burst comes at once.
func TestARateIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		var r troupe.Registry
		var l keyed
		l.handle(&r, time.Millisecond, troupe.Limit{Name: "api", Rate: 10, Burst: 5})
		for i := range 105 {
			_, err := client.New(mem.Client).PushClass(ctx, "C", []any{"t0", i})
			harness.OK(t, err)
		}
		k := testkit.Start(t, actors.Config{Redis: mem.Client, Registry: &r, Capsules: []actors.Capsule{{Concurrency: 8}}})
		k.Await("all done", func() bool { return k.Stats().Processed == 105 && k.Stats().Busy == 0 })
		k.Stop()
		burst, last := 0, l.starts[104].Sub(l.starts[0])
		for _, s := range l.starts {
			if s.Sub(l.starts[0]) < 50*time.Millisecond {
				burst++
			}
		}
		harness.Equal(t, "jobs of the burst", burst, 5)
		if last < 9900*time.Millisecond || last > 10200*time.Millisecond {
			t.Errorf("100 more jobs at 10 a second took %v", last)
		}
	})
}
