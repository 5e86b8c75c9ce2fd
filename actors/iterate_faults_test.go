package actors_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/script"
)

const loading = "LOADING Redis is loading the dataset in memory"

// held is a fetcher that fails chosen calls, as broken connections would.
type held struct {
	fetch.Fetcher
	acks  atomic.Bool // Takes with acks
	place atomic.Int64
	slow  atomic.Int64 // ns that a Settle takes
}

const noPlace = -1

func newHeld() *held {
	h := new(held)
	h.place.Store(noPlace)
	return h
}

func (h *held) factory(env fetch.Env) (fetch.Fetcher, error) {
	f, err := fetch.NewReliable(env)
	h.Fetcher = f
	return h, err
}

func (h *held) Take(ctx context.Context, n int, acks []fetch.Unit) ([]fetch.Unit, error) {
	if len(acks) > 0 && h.acks.Load() {
		return nil, errHeld
	}
	return h.Fetcher.Take(ctx, n, acks)
}

func (h *held) Settle(ctx context.Context, moves []fetch.Move) ([]fetch.Result, error) {
	time.Sleep(time.Duration(h.slow.Load())) // in a bubble
	for _, m := range moves {
		if int64(m.To) == h.place.Load() {
			return nil, context.DeadlineExceeded
		}
	}
	return h.Fetcher.Settle(ctx, moves)
}

// Between the end of a job and its ack in Redis its state must be there: after a
// crash it would begin anew.
func TestTheStateIsDeletedOnlyAfterTheAck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		h := newHeld()
		w := &walker{each: sleeping(time.Second)}
		k := testkit.Start(t, actors.Config{Redis: m.Client, Registry: w.registry(), Capsules: one(h.factory)}, testkit.Strict())
		h.acks.Store(true)
		jid := k.Push(walk{10})
		k.Expect(testkit.Events[event.JobDone]().Times(1).Within(time.Minute), nil)
		time.Sleep(10 * time.Second)
		if inProgress(t, m.Client) != 1 {
			t.Fatal("the ack was not held back")
		}
		wantState(t, m.Client, jid, 1, 8) // the save at 8 s was the last
		h.acks.Store(false)
		k.Await("acked, and the state is gone", func() bool {
			return inProgress(t, m.Client) == 0 && len(state(t, m.Client, jid)) == 0
		})
	})
}

// The process ends between the last item and the ack: the next one goes on with
// the cursor saved last.
func TestACrashBeforeTheAckDoesNotRestartTheIteration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		h := newHeld()
		w := &walker{each: sleeping(time.Second)}
		r := w.registry()
		k := testkit.Start(t, actors.Config{Redis: m.Client, Registry: r, Capsules: one(h.factory)})
		h.acks.Store(true)
		jid := k.Push(walk{10})
		k.Expect(testkit.Events[event.JobDone]().Times(1).Within(time.Minute), nil)
		if report := k.Stop(); len(report.Left) != 1 {
			t.Fatalf("drain report: %s", report)
		}
		next := testkit.Start(t, actors.Config{Redis: m.Client, Registry: r, Capsules: one(nil)}, testkit.Strict())
		next.Expect(testkit.Events[event.JobDone]().Times(1).Within(10*time.Minute), nil)
		if got := w.itemsOf(jid); !slices.Equal(got, append(upTo(10), 8, 9)) {
			t.Errorf("ran %v", got)
		}
		next.Await("the state is gone", func() bool { return len(state(t, m.Client, jid)) == 0 })
	})
}

// The process ends between the save at an interruption and the move: the job is
// rescued and goes on with the new cursor.
func TestACrashBetweenSaveAndMoveLosesNoProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		h := newHeld()
		w := &walker{each: sleeping(time.Second)}
		r := w.registry()
		k := testkit.Start(t, actors.Config{Redis: m.Client, Registry: r, Capsules: one(h.factory)})
		jid := k.Push(walk{10})
		k.Await("progress", w.reached(jid, 6))
		h.place.Store(int64(fetch.ToBack))
		if report := k.Stop(); len(report.Left) != 1 || len(report.Interrupted) != 0 {
			t.Fatalf("drain report: %s", report)
		}
		wantState(t, m.Client, jid, 1, 7)
		next := testkit.Start(t, actors.Config{Redis: m.Client, Registry: r}, testkit.Strict())
		next.Expect(testkit.Events[event.JobDone]().Times(1).Within(10*time.Minute), nil)
		if got := w.itemsOf(jid); !slices.Equal(got, upTo(10)) {
			t.Errorf("ran %v", got)
		}
	})
}

// Redis is away: the job works on, is not interrupted before its place is saved,
// and nothing runs twice.
func TestAnIterableJobOutlivesAnOutageAtQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		w := &walker{each: sleeping(time.Second)}
		k := testkit.Start(t, actors.Config{Redis: m.Client, Registry: w.registry(), Capsules: one(nil)}, testkit.Strict())
		jid := k.Push(walk{1000})
		k.Await("progress", w.reached(jid, 5))
		m.SetError(loading)
		k.Quiet()
		time.Sleep(time.Minute)
		at := len(w.itemsOf(jid))
		if at < 60 || k.Stats().Busy != 1 {
			t.Errorf("%d items after a minute, %+v", at, k.Stats())
		}
		m.SetError("")
		k.Expect(testkit.Events[event.JobInterrupted]().Times(1).Within(30*time.Second), nil)
		wantState(t, m.Client, jid, 1, len(w.itemsOf(jid)))
		if n := size(t, m.Client, "queue:default"); n != 1 || inProgress(t, m.Client) != 0 {
			t.Errorf("%d in the queue, %d in progress", n, inProgress(t, m.Client))
		}
	})
}

// An error while Redis is away is stored when it is back, with its cursor.
func TestAFailureDuringAnOutageKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		w := &walker{}
		w.each = func(_ context.Context, _ string, i int) error {
			time.Sleep(time.Second)
			if i == 30 {
				return script.Err
			}
			return nil
		}
		k := testkit.Start(t, actors.Config{Redis: m.Client, Registry: w.registry(), Capsules: one(nil)}, testkit.Strict())
		jid := k.Push(walk{1000})
		k.Await("progress", w.reached(jid, 5))
		m.SetError(loading)
		time.Sleep(time.Minute)
		m.SetError("")
		k.Expect(testkit.Events[event.JobRetried]().Within(time.Minute), nil)
		wantState(t, m.Client, jid, 1, 30)
	})
}

// A job that cannot ask where it was waits; it neither fails nor begins anew.
func TestAnIterableJobWaitsForItsState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		w := &walker{}
		h := newHeld()
		k := testkit.Start(t, actors.Config{Redis: m.Client, Registry: w.registry(), Capsules: one(cutAfterTake(h, m))}, testkit.Strict())
		m.Client.HSet(ctx, "it-w1", "ex", 3, "c", 5, "rt", "12.5")
		m.Client.LPush(ctx, "queue:default", `{"class":"Walk","args":[8],"jid":"w1","queue":"default","retry":true}`)
		k.Await("it is running", func() bool { return k.Stats().Busy == 1 })
		time.Sleep(time.Minute)
		if s := k.Stats(); s.Busy != 1 || len(w.itemsOf("w1")) != 0 {
			t.Errorf("%+v, ran %v", s, w.itemsOf("w1"))
		}
		m.SetError("")
		k.Expect(testkit.Events[event.JobDone]().Times(1).Within(time.Minute), nil)
		harness.EqualList(t, "ran, want to go on with 5", w.itemsOf("w1"), []int{5, 6, 7})
	})
}

// cutAfterTake makes Redis fail as soon as a unit has been taken.
func cutAfterTake(h *held, m *testkit.Server) fetch.Factory {
	return func(env fetch.Env) (fetch.Fetcher, error) {
		_, err := h.factory(env)
		return &cutting{held: h, m: m}, err
	}
}

type cutting struct {
	*held
	m    *testkit.Server
	once atomic.Bool
}

func (c *cutting) Take(ctx context.Context, n int, acks []fetch.Unit) ([]fetch.Unit, error) {
	units, err := c.held.Take(ctx, n, acks)
	if len(units) > 0 && c.once.CompareAndSwap(false, true) {
		c.m.SetError(loading)
	}
	return units, err
}

// An item that takes longer than the stop: requeued as any job, with the cursor
// saved last; what its run does afterwards touches neither job nor state.
func TestAnItemLongerThanTheStopIsRequeued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		h := newHeld()
		w := &walker{}
		w.each = func(ctx context.Context, _ string, i int) error {
			time.Sleep(time.Second)
			if i == 5 { // until just after the deadline, before the context is cancelled
				time.Sleep(24*time.Second + 500*time.Millisecond)
			}
			return nil
		}
		r := w.registry()
		k := testkit.Start(t, actors.Config{Redis: m.Client, Registry: r, Capsules: one(h.factory)})
		jid := k.Push(walk{9})
		k.Await("the long item", w.reached(jid, 5))
		raw := jobsInProgress(t, m.Client)[0]
		h.slow.Store(int64(time.Second))
		report := k.Stop()
		if len(report.Requeued) != 1 || len(report.Interrupted) != 0 {
			t.Errorf("drain report: %s", report)
		}
		wantState(t, m.Client, jid, 1, 4) // of the save at 4 s
		if got := m.Client.LRange(ctx, "queue:default", 0, -1).Val(); !slices.Equal(got, []string{raw}) {
			t.Errorf("the queue is %q, want the job unchanged: %q", got, raw)
		}
		w.each = nil
		next := testkit.Start(t, actors.Config{Redis: m.Client, Registry: r}, testkit.Strict())
		next.Await("it is done", func() bool { return next.Stats().Processed == 1 })
		harness.EqualList(t, "ran, want to go on with 4", w.itemsOf(jid), append(upTo(6), 4, 5, 6, 7, 8))
	})
}
