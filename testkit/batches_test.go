package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// told is a callback of a batch.
type told struct {
	Event string `arg:"0"`
}

func (told) Class() string { return "Told" }

func tells(event string) client.Item { return client.Job(told{event}) }

// batchJobs have steps, which fail as many of them tell, make batches and grow them; and callbacks, which are noted in order.
func batchJobs(order *[]string, run func(ctx context.Context, n int) error) *troupe.Registry {
	var r troupe.Registry
	troupe.Handle(&r, func(ctx context.Context, job *troupe.Job[step]) error {
		*order = append(*order, fmt.Sprint(job.Args.N))
		return run(ctx, job.Args.N)
	})
	troupe.Handle(&r, func(ctx context.Context, job *troupe.Job[told]) error {
		if info, _ := troupe.JobInfoFrom(ctx); info.CallbackOf == "" {
			return errors.New("it does not know its batch")
		}
		*order = append(*order, job.Args.Event)
		return nil
	})
	return &r
}

func pushSteps(ctx context.Context, b *client.Batch, steps ...int) error {
	for _, n := range steps {
		if _, err := b.Push(ctx, step{n}); err != nil {
			return err
		}
	}
	return nil
}

func none(context.Context, int) error { return nil }

// What a fake pushes into a batch is there as any push is, in order; drained, each callback is pushed once, when its time has come.
func TestBatchesOfAFake(t *testing.T) {
	var order []string
	p, ctx := testkit.Fake(t), t.Context()
	harness.Fails(t, func(tb testing.TB) { testkit.RequireBatch(tb, p, "") }, "expected one batch")
	id, err := p.Client.Batch(ctx, client.BatchOptions{Name: "b", Complete: tells("complete"), Success: tells("success"), Death: tells("death")}, func(b *client.Batch) error {
		if _, err := b.Push(ctx, step{1}, client.In(time.Hour)); err != nil {
			return err
		}
		if _, err := b.Push(ctx, step{2}, client.Queue("other")); err != nil {
			return err
		}
		_, err := b.PushChain(ctx, client.Job(step{3}), client.Job(step{4}))
		return err
	})
	harness.OK(t, err)
	testkit.RequirePushedMany(t, p, step{1}, step{2}, step{3})
	if at := testkit.RequirePushed(t, p, func(s step) bool { return s.N == 1 }).At; time.Until(at) < 59*time.Minute {
		t.Errorf("the first is due at %v", at)
	}
	b := testkit.RequireBatch(t, p, "b")
	harness.Equal(t, "the batch", fmt.Sprintf("%t %s %d %d %s", b.ID == id, b.State(), b.Total, len(b.Callbacks), b.Callbacks[1].Class), "true running 3 3 Told")
	r := batchJobs(&order, none)
	_, err = p.Drain(ctx, r)
	harness.OK(t, err)
	harness.Equal(t, "order", fmt.Sprint(order), "[1 2 3 4 complete success]")
	harness.Equal(t, "its state", testkit.RequireBatch(t, p, "").State(), inspect.BatchSucceeded)
	err = p.Client.GrowBatch(ctx, id, func(b *client.Batch) error { return pushSteps(ctx, b, 5) })
	if _, ok := errors.AsType[*client.FieldError](err); !ok {
		t.Errorf("a batch that has succeeded grows: %v", err)
	}
	p.Clear()
	harness.Fails(t, func(tb testing.TB) { testkit.RequireBatch(tb, p, "") }, "got 0")
}

// A job that fails has ended a run, one that is killed has died; a batch within one ends before it; one that was cancelled runs nothing.
func TestBatchesOfAFakeThatFailOrNest(t *testing.T) {
	var order []string
	p, ctx := testkit.Fake(t), t.Context()
	on := func(name string) client.BatchOptions {
		return client.BatchOptions{Name: name, Complete: tells(name + " complete"), Success: tells(name + " success"), Death: tells(name + " death")}
	}
	r := batchJobs(&order, func(ctx context.Context, n int) error {
		info, _ := troupe.JobInfoFrom(ctx)
		switch n {
		case 1:
			return errors.New("fails")
		case 2:
			return troupe.Kill(errors.New("dies"))
		case 3:
			_, err := client.Within(ctx).Batch(ctx, on("inner"), func(b *client.Batch) error { return pushSteps(ctx, b, 4, 5) })
			return err
		case 5:
			return client.FromContext(ctx).GrowBatch(ctx, info.Batch, func(b *client.Batch) error { return pushSteps(ctx, b, 6) })
		}
		return nil
	})
	drain := func() {
		order = nil
		for {
			if _, err := p.Drain(ctx, r); err == nil {
				return
			}
		}
	}
	_, err := p.Client.Batch(ctx, on("bad"), func(b *client.Batch) error { return pushSteps(ctx, b, 1, 2, 7) })
	harness.OK(t, err)
	drain()
	harness.Equal(t, "one that dies", fmt.Sprint(order), "[1 2 7 bad death bad complete]")
	harness.Equal(t, "its state", testkit.RequireBatch(t, p, "bad").State(), inspect.BatchComplete)

	_, err = p.Client.Batch(ctx, on("outer"), func(b *client.Batch) error { return pushSteps(ctx, b, 3) })
	harness.OK(t, err)
	drain()
	harness.Equal(t, "nested", fmt.Sprint(order), "[3 4 5 6 inner complete inner success outer complete outer success]")

	id, err := p.Client.Batch(ctx, on("off"), func(b *client.Batch) error { return pushSteps(ctx, b, 7) })
	harness.OK(t, err)
	harness.OK(t, p.Client.CancelBatch(ctx, id))
	drain()
	harness.Equal(t, "cancelled", fmt.Sprint(order), "[]")
}

// Inline runs the jobs of a batch when its function has returned, and callbacks behind them. Record notes what passes.
func TestBatchesInlineAndRecorded(t *testing.T) {
	var order []string
	r, ctx := batchJobs(&order, none), t.Context()
	p := testkit.Inline(t, r, nil)
	_, err := p.Client.Batch(ctx, client.BatchOptions{Success: tells("success")}, func(b *client.Batch) error { return pushSteps(ctx, b, 1, 2) })
	harness.OK(t, err)
	harness.Equal(t, "inline", fmt.Sprint(order), "[1 2 success]")

	testkit.Virtual(t, actors.Config{Registry: r}, func(t *testing.T, kit *testkit.Kit) {
		p := testkit.Record(t, kit.Redis)
		id, err := kit.Client.Batch(t.Context(), client.BatchOptions{Success: tells("success")}, func(b *client.Batch) error { return pushSteps(t.Context(), b, 1, 2) })
		harness.OK(t, err)
		testkit.RequirePushedMany(t, p, step{1}, step{2})
		b := testkit.RequireBatchState(t, kit.Redis, id, inspect.BatchSucceeded)
		harness.Equal(t, "not done", b.Pending, int64(0))
		harness.Fails(t, func(tb testing.TB) { testkit.RequireBatchState(tb, kit.Redis, id, inspect.BatchOpen) }, "it is succeeded")
	})
}

// Record notes the first unique job, too, of which the script is new to Redis.
func TestRecordNotesAScriptThatRedisDoesNotKnow(t *testing.T) {
	rdb := testkit.Redis(t)
	harness.OK(t, rdb.ScriptFlush(t.Context()).Err())
	p := testkit.Record(t, rdb)
	_, err := client.New(rdb).Push(t.Context(), step{1}, client.Unique(troupe.Unique{For: time.Hour}))
	harness.OK(t, err)
	testkit.RequirePushed[step](t, p)
}
