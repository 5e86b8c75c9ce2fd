package actors_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
	"github.com/troupehq/troupe/testkit/script"
)

// lateAcks is a fetcher whose acks, and in the end all its Takes and Settles, fail
// until the test lets them through: what hears of a fence is Renew.
type lateAcks struct {
	fetch.Fetcher
	acks  atomic.Bool  // Takes with acks fail
	all   atomic.Bool  // all Takes and Settles fail
	acked atomic.Int64 // units whose ack was answered without an error

	heard     chan struct{} // closed when Renew has heard of a fence
	heardOnce sync.Once
	silent    chan struct{} // Renew returns that only when this is closed
}

func newLateAcks() *lateAcks {
	l := &lateAcks{heard: make(chan struct{}), silent: make(chan struct{})}
	l.acks.Store(true)
	return l
}

func (l *lateAcks) factory(env fetch.Env) (fetch.Fetcher, error) {
	f, err := fetch.NewReliable(env)
	l.Fetcher = f
	return l, err
}

func (l *lateAcks) Take(ctx context.Context, n int, acks []fetch.Unit) ([]fetch.Unit, error) {
	if l.all.Load() || len(acks) > 0 && l.acks.Load() {
		return nil, errHeld
	}
	units, err := l.Fetcher.Take(ctx, n, acks)
	if err == nil {
		l.acked.Add(int64(len(acks)))
	}
	return units, err
}

func (l *lateAcks) Settle(ctx context.Context, moves []fetch.Move) ([]fetch.Result, error) {
	if l.all.Load() {
		return nil, context.DeadlineExceeded
	}
	return l.Fetcher.Settle(ctx, moves)
}

func (l *lateAcks) Renew(ctx context.Context) error {
	err := l.Fetcher.Renew(ctx)
	if errors.As(err, new(*fetch.FencedError)) {
		l.heardOnce.Do(func() { close(l.heard) })
		<-l.silent
	}
	return err
}

// open lets all through.
func (l *lateAcks) open() {
	l.all.Store(false)
	l.acks.Store(false)
}

// fencedWalk is a process that has walked to the end of a job of ten items and is cut
// off before the ack is in Redis, for so long that another one puts the job back. Its
// queue is paused by then, so that the job waits there.
func fencedWalk(t *testing.T, m *testkit.Server, l *lateAcks, r *troupe.Registry, queues fetch.Strict, during func(*testkit.Kit)) (k *testkit.Kit, jid string) {
	t.Helper()
	faults := chaos.NewProxy(t, m.Options())
	k = testkit.Start(t, actors.Config{
		Redis: faults.Client(), Registry: r, Timeout: time.Hour,
		Capsules: []actors.Capsule{{Concurrency: 3, Queues: queues, Fetch: l.factory}},
	})
	other := testkit.Start(t, actors.Config{Redis: m.Client, Registry: r, Capsules: []actors.Capsule{{Concurrency: 1, Queues: fetch.Strict{"other"}}}})
	jid = k.Push(walk{10})
	k.Expect(testkit.Events[event.JobDone]().Of("Walk").Times(1).Within(time.Minute), nil)
	l.all.Store(true)
	m.Client.SAdd(ctx, "paused", "default")
	during(k)
	faults.Pause()
	other.Await("the job is put back", func() bool { return size(t, m.Client, "queue:default") == 1 })
	faults.Resume()
	<-l.heard
	return k, jid
}

// The job is another process's again, with the cursor of its last save: an ack that
// had no effect must not cost it that.
func TestAFenceBeforeTheAckKeepsThePlaceOfAnIterableJob(t *testing.T) {
	for name, told := range map[string]func(*testing.T, *testkit.Kit, *lateAcks){
		"the daemon knows of it when the ack goes": func(t *testing.T, k *testkit.Kit, l *lateAcks) {
			t.Helper()
			k.Expect(testkit.Events[event.Fenced]().Within(time.Minute), func() { close(l.silent) })
			l.open()
			time.Sleep(time.Minute) // each of these runs in a bubble
		},
		"the daemon hears of it after the ack": func(t *testing.T, k *testkit.Kit, l *lateAcks) {
			t.Helper()
			l.open()
			k.Await("the ack is answered", func() bool { return l.acked.Load() == 1 })
			time.Sleep(time.Second) // in a bubble, too
			close(l.silent)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, l := testkit.NewMemory(t), newLateAcks()
				w := &walker{each: sleeping(time.Second)}
				k, jid := fencedWalk(t, m, l, w.registry(), fetch.Strict{"default"}, func(*testkit.Kit) {})
				told(t, k, l)
				wantState(t, m.Client, jid, 1, 8) // the save at 8 s was the last
				m.Client.SRem(ctx, "paused", "default")
				k.Await("its second run is acked, and the state is gone", func() bool {
					return len(w.itemsOf(jid)) > 10 && inProgress(t, m.Client) == 0 && len(state(t, m.Client, jid)) == 0
				})
				harness.EqualList(t, "ran, want the second run to go on with 8", w.itemsOf(jid), append(upTo(10), 8, 9))
			})
		})
	}
}

// A job that was put back by another process has not finished here, whether it was
// done or has failed.
func TestAFenceDuringAStopLeavesNothingToReportAsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, l := testkit.NewMemory(t), newLateAcks()
		w := &walker{each: sleeping(time.Second)}
		r := w.registry()
		release := make(chan struct{})
		troupe.HandleClass(r, "Long", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error {
			<-release
			return nil
		}))
		troupe.HandleClass(r, "Fails", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error {
			time.Sleep(20 * time.Second) // until after the last call that gets through
			return script.Err
		}))
		for _, class := range []string{"Long", "Fails"} {
			m.Client.LPush(ctx, "queue:long", `{"class":"`+class+`","args":[],"jid":"`+class+`","queue":"long","retry":true}`)
		}
		report := make(chan actors.DrainReport, 1)
		k, jid := fencedWalk(t, m, l, r, fetch.Strict{"long", "default"}, func(k *testkit.Kit) {
			go func() { report <- k.Stop() }()
			k.Await("it stops", func() bool { return m.Client.HGet(ctx, k.Identity(), "quiet").Val() == "true" })
		})
		k.Expect(testkit.Events[event.Fenced]().Within(time.Minute), func() { close(l.silent) })
		l.open()
		time.Sleep(time.Minute)
		close(release)
		got := <-report
		if n := len(got.Finished) + len(got.Requeued) + len(got.Left) + len(got.Interrupted); n != 0 {
			t.Errorf("drain report: %s", got)
		}
		wantState(t, m.Client, jid, 1, 8)
		if n := size(t, m.Client, "queue:default") + size(t, m.Client, "queue:long"); n != 3 || size(t, m.Client, "retry") != 0 {
			t.Errorf("%d jobs in the queues and %d in retry, want all three in the queues", n, size(t, m.Client, "retry"))
		}
	})
}
