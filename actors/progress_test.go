package actors_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// progressWrites counts the calls of Redis that write progress.
type progressWrites struct{ n atomic.Int64 }

func (w *progressWrites) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (w *progressWrites) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (w *progressWrites) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if args := cmd.Args(); len(args) > 1 && strings.HasPrefix(fmt.Sprint(args[1]), "troupe:progress:") {
				w.n.Add(1)
				break
			}
		}
		return next(ctx, cmds)
	}
}

// What a job tells is seen while it runs: written once a second at most for all jobs of the process, with the rate of the last
// two minutes, and gone with the run.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		var r troupe.Registry
		troupe.HandleClass(&r, "Job", troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
			for i := range 3000 { // ten a second
				troupe.SetProgress(ctx, int64(i), 3000, "page "+fmt.Sprint(i))
				time.Sleep(100 * time.Millisecond)
			}
			return nil
		}))
		troupe.HandleClass(&r, "Quick", troupe.HandlerFunc(func(ctx context.Context, _ *troupe.Payload) error {
			troupe.SetProgress(ctx, 1, 1, "")
			return nil
		}))
		var w progressWrites
		k := testkit.Start(t, actors.Config{Redis: mem.Client, Registry: &r, OnClient: func(c redis.UniversalClient) { c.AddHook(&w) }})
		i := inspect.New(mem.Client)
		k.PushClass("Quick", nil)
		time.Sleep(5 * time.Second)
		if n := w.n.Load(); n != 0 || k.Metrics().Classes[1].Progress != 1 {
			t.Errorf("a job of no time: %d writes, counted %d", n, k.Metrics().Classes[1].Progress)
		}
		jid, other := k.PushClass("Job", nil), k.PushClass("Job", nil)
		time.Sleep(60*time.Second + 50*time.Millisecond)
		for _, jid := range []string{jid, other} {
			p := harness.Must(i.Progress(ctx, jid))(t)
			left, ok := p.Left()
			if p.Done < 580 || p.Done > 600 || p.Total != 3000 || p.Text != fmt.Sprintf("page %d", p.Done) || p.Rate < 9.9 || p.Rate > 10.1 ||
				time.Since(p.At) > 1100*time.Millisecond || !ok || left < 238*time.Second || left > 246*time.Second {
				t.Errorf("after a minute: %+v, %v left", p, left)
			}
		}
		works := harness.Must(i.Works(ctx))(t)
		if len(works) != 2 || works[0].Progress == nil || works[1].Progress == nil || works[0].Progress.Total != 3000 {
			t.Errorf("of the running jobs: %+v", works)
		}
		if n := w.n.Load(); n < 55 || n > 61 {
			t.Errorf("%d writes in a minute", n)
		}
		if n := k.Metrics().Classes[0].Progress; n < 1180 || n > 1200 {
			t.Errorf("counted %d", n)
		}
		time.Sleep(242 * time.Second)
		k.Await("all are done", k.Settled)
		time.Sleep(2 * time.Second)
		if _, err := i.Progress(ctx, jid); !errors.Is(err, inspect.ErrNotFound) {
			t.Errorf("after the end: %v", err)
		}
		harness.Equal(t, "keys of progress", len(mem.Client.Keys(ctx, "troupe:progress:*").Val()), 0)
		before := w.n.Load()
		time.Sleep(5 * time.Minute)
		harness.Equal(t, "writes when nothing runs", w.n.Load(), before)
	})
}

// A job that tells nothing new is shown with a rate that falls; a Redis that has forgotten has it again; and one whose process is
// killed has none.
func TestProgressOfAJobThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		var r troupe.Registry
		end := make(chan struct{})
		troupe.HandleClass(&r, "Job", troupe.HandlerFunc(func(ctx context.Context, _ *troupe.Payload) error {
			troupe.SetProgress(ctx, 0, 0, "")
			time.Sleep(10 * time.Second)
			troupe.SetProgress(ctx, 100, 1000, strings.Repeat("ü", 1000)+"\xff")
			<-end
			return nil
		}))
		k := testkit.Start(t, actors.Config{Redis: mem.Client, Registry: &r})
		i, jid := inspect.New(mem.Client), k.PushClass("Job", nil)
		time.Sleep(9 * time.Second)
		p := harness.Must(i.Progress(ctx, jid))(t)
		if _, ok := p.Left(); ok || p.Rate != 0 {
			t.Errorf("before anything is done: %+v", p)
		}
		time.Sleep(11 * time.Second)
		first := harness.Must(i.Progress(ctx, jid))(t)
		if len(first.Text) > troupe.MaxProgressText+len("…") || !strings.HasPrefix(first.Text, "üü") {
			t.Errorf("the text is %q", first.Text)
		}
		mem.Client.FlushAll(ctx)
		time.Sleep(100 * time.Second)
		later := harness.Must(i.Progress(ctx, jid))(t)
		if later.Done != 100 || later.Rate <= 0 || later.Rate >= first.Rate || !later.At.Equal(first.At) {
			t.Errorf("%+v, then %+v", first, later)
		}
		time.Sleep(120 * time.Second)
		if p := harness.Must(i.Progress(ctx, jid))(t); p.Rate != 0 {
			t.Errorf("after two minutes: %+v", p)
		}
		if ttl := mem.Client.TTL(ctx, "troupe:progress:"+k.Identity()).Val(); ttl < 45*time.Second || ttl > time.Minute {
			t.Errorf("a process that is killed leaves it for %v", ttl)
		}
		close(end)
	})
}

// An iterable job tells its items by itself, of what Total says, and goes on with the count in its next run; what its handler tells
// counts before that.
func TestProgressOfIterableJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		var r troupe.Registry
		var tells atomic.Bool
		troupe.HandleIterable(&r, func(_ context.Context, _ *troupe.Job[walk], from *int, yield func(int, int) bool) error {
			return troupe.YieldSlice(make([]int, 100), from, yield)
		}, func(_ context.Context, job *troupe.Job[walk], _ int) error {
			time.Sleep(time.Second)
			if tells.Load() {
				job.SetProgress(5, 6, "five")
			}
			return nil
		}, troupe.IterableOptions[walk]{
			Total: func(context.Context, *troupe.Job[walk]) (int64, error) { return 100, nil },
		})
		k := testkit.Start(t, actors.Config{Redis: mem.Client, Registry: &r, MaxIterationRuntime: 30 * time.Second})
		i, jid := inspect.New(mem.Client), k.PushClass("Walk", []any{1})
		time.Sleep(20*time.Second + 500*time.Millisecond)
		p := harness.Must(i.Progress(ctx, jid))(t)
		if p.Done < 18 || p.Done > 20 || p.Total != 100 || p.Rate < 0.9 || p.Rate > 1.1 {
			t.Errorf("in the first run: %+v", p)
		}
		time.Sleep(30 * time.Second)
		its := harness.Must(i.Iterations(ctx, jid))(t)
		if p = harness.Must(i.Progress(ctx, jid))(t); p.Done < 47 || p.Done > 50 || p.Rate > 1.1 || its[0].Executions < 2 || its[0].Done < 40 || its[0].Total != 100 {
			t.Errorf("in the second run: %+v, %+v", p, its[0])
		}
		tells.Store(true)
		time.Sleep(10 * time.Second)
		if p = harness.Must(i.Progress(ctx, jid))(t); p.Done != 5 || p.Total != 6 || p.Text != "five" {
			t.Errorf("told by the handler: %+v", p)
		}
		tells.Store(false)
		k.Await("it is done", k.Settled)
		harness.Equal(t, "counted", k.Metrics().Classes[0].Progress > 75, true)
	})
}
