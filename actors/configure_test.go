package actors_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/flight"
	outcomes "github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// gate is a handler that counts those that are in it and lets them go one by one.
type gate struct {
	in   atomic.Int64
	out  chan struct{}
	errs chan error // causes of contexts that have ended
}

func newGate() *gate { return &gate{out: make(chan struct{}), errs: make(chan error, 10)} }

func (g *gate) Perform(ctx context.Context, _ *troupe.Payload) error {
	g.in.Add(1)
	defer g.in.Add(-1)
	select {
	case <-g.out:
		return nil
	case <-ctx.Done():
		g.errs <- context.Cause(ctx)
		return context.Cause(ctx)
	}
}

func TestProcessorsComeAndGo(t *testing.T) {
	rdb, g := testkit.Redis(t), newGate()
	var r troupe.Registry
	troupe.HandleClass(&r, "Gate", g)
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Concurrency: 2})
	for i := range 20 {
		rdb.LPush(t.Context(), "queue:default", fmt.Sprintf(`{"class":"Gate","args":[],"jid":"%024d"}`, i))
	}
	runs := func(n int64) { k.Await(fmt.Sprint(n, " jobs run"), func() bool { return g.in.Load() == n }) }
	configure := func(n int) {
		t.Helper()
		harness.OK(t, k.Daemon.Configure(t.Context(), actors.Capsule{Concurrency: n}))
	}
	concurrency := func(n int) {
		k.Await(fmt.Sprint("a beat with ", n), func() bool {
			return rdb.HGet(t.Context(), k.Daemon.Identity(), "concurrency").Val() == fmt.Sprint(n)
		})
	}
	runs(2)
	configure(5)
	runs(5)
	concurrency(5)
	configure(1)
	concurrency(1)
	k.Await("one job runs", func() bool { // running jobs end as they are, and no other takes their slots
		for g.in.Load() > 1 {
			g.out <- struct{}{}
		}
		return g.in.Load() == 1
	})
	// Those that were taken away are no trouble: the tree has them no more.
	k.Await("one processor is left", func() bool {
		tree := k.Daemon.Tree().String()
		return strings.Count(tree, "processor-") == 1 && !strings.Contains(tree, "stop")
	})
	if h := k.Daemon.Health(); !h.Ready.OK() || !h.Live.OK() {
		t.Errorf("health %+v", h)
	}
	k.Await("no processor counts as stopped", func() bool { return k.Daemon.Metrics().Capsules[0].Processors["stopped"] == 0 })
	g.out <- struct{}{}
	runs(1)
	configure(3)
	runs(3)
	configure(2)
	configure(3) // while the third is busy
	runs(3)
	close(g.out)
	k.Await("all jobs", func() bool { return k.Stats().Processed == 20 && k.Settled() })
	if got := k.Daemon.Tree(); got.Find("launcher/default/processor-2").State != actors.StateIdle || got.Find("launcher/default/processor-3").State != "" {
		t.Errorf("tree\n%s", got)
	}
}

func TestQueuesChangeWhileJobsRun(t *testing.T) {
	rdb, g := testkit.Redis(t), newGate()
	var r troupe.Registry
	troupe.HandleClass(&r, "Gate", g)
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Concurrency: 2, Queues: actors.Strict{"a"}})
	push := func(queue string) {
		rdb.LPush(t.Context(), "queue:"+queue, `{"class":"Gate","args":[],"jid":"0123456789abcdef01234567"}`)
	}
	push("a")
	push("b")
	k.Await("the job of a", func() bool { return g.in.Load() == 1 })
	harness.OK(t, k.Daemon.Configure(t.Context(), actors.Capsule{Queues: actors.Weighted{"b": 2, "c": 1}}))
	k.Await("the job of b", func() bool { return g.in.Load() == 2 })
	g.out <- struct{}{}
	g.out <- struct{}{}
	push("a")
	push("c")
	k.Await("the job of c", func() bool { return g.in.Load() == 1 })
	harness.Equal(t, "jobs in the queue that was left", rdb.LLen(t.Context(), "queue:a").Val(), 1)
	g.out <- struct{}{}
	var info struct {
		Capsules map[string]struct{ Weights map[string]int }
	}
	k.Await("a beat with the queues", func() bool {
		_ = json.Unmarshal([]byte(rdb.HGet(t.Context(), k.Daemon.Identity(), "info").Val()), &info)
		return fmt.Sprint(info.Capsules["default"].Weights) == "map[b:2 c:1]"
	})
	harness.OK(t, k.Daemon.Configure(t.Context(), actors.Capsule{Queues: actors.Strict{"a"}}))
	k.Await("the job of a", func() bool { return g.in.Load() == 1 })
	g.out <- struct{}{}
}

func TestConfigureChecksFirst(t *testing.T) {
	rdb, g := testkit.Redis(t), newGate()
	var r troupe.Registry
	troupe.HandleClass(&r, "Gate", g)
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Concurrency: 2})
	err := k.Daemon.Configure(t.Context(), actors.Capsule{Concurrency: 9}, actors.Capsule{Name: "other"}, actors.Capsule{Concurrency: -1, Queues: actors.Strict{""}})
	for _, want := range []string{`"other" does not run here`, "Concurrency is -1, expected 1 to 10000", "capsule default: Queues: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %s", err, want)
		}
	}
	harness.Equal(t, "processors", strings.Count(k.Daemon.Tree().String(), "processor-"), 2)
}

func TestCancelEndsTheContextOfAJob(t *testing.T) {
	rdb, g := testkit.Redis(t), newGate()
	var r troupe.Registry
	troupe.HandleClass(&r, "Gate", g)
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Concurrency: 2})
	for _, jid := range []string{"one", "two"} {
		rdb.LPush(t.Context(), "queue:default", `{"class":"Gate","args":[],"retry":true,"jid":"`+jid+`"}`)
	}
	k.Await("both", func() bool { return g.in.Load() == 2 })
	if k.Daemon.Cancel("three") {
		t.Error("a job that does not run was cancelled")
	}
	if !k.Daemon.Cancel("one") {
		t.Error("the job does not run")
	}
	if err := <-g.errs; !errors.Is(err, troupe.ErrCancelled) {
		t.Errorf("cause %v", err)
	}
	k.Await("the retry", func() bool { return rdb.ZCard(t.Context(), "retry").Val() == 1 })
	if member := rdb.ZRange(t.Context(), "retry", 0, 0).Val()[0]; !strings.Contains(member, "cancelled by an operator") || !strings.Contains(member, `"one"`) {
		t.Errorf("retry %s", member)
	}
	var kinds []string
	k.Await("the records", func() bool {
		records := harness.Must(flight.Read(t.Context(), rdb, k.Daemon.Identity()))(t)
		kinds = nil
		for _, rec := range records {
			if rec.JID == "one" {
				kinds = append(kinds, rec.Kind)
			}
		}
		return len(kinds) > 0
	})
	if kinds[0] != outcomes.Cancelled.Kind() {
		t.Errorf("records %q", kinds)
	}
	g.out <- struct{}{}
	k.Await("the other", func() bool { return k.Stats().Processed == 2 })
	k.Daemon.Stop(t.Context())
	records := harness.Must(flight.Read(t.Context(), rdb, k.Daemon.Identity()))(t)
	for _, rec := range records {
		if rec.JID == "two" || rec.Text == "" && rec.Kind == outcomes.Failed.Kind() {
			t.Errorf("record %+v", rec)
		}
	}
}

// An iterable job that is cancelled is done: its hooks run, with a context that lives.
func TestACancelledIterableJobIsDone(t *testing.T) {
	var hooks []string
	note := func(name string) func(context.Context, *troupe.Job[walk], troupe.Iteration) error {
		return func(ctx context.Context, _ *troupe.Job[walk], it troupe.Iteration) error {
			hooks = append(hooks, fmt.Sprint(name, " ", ctx.Err(), " ", !it.Cancelled.IsZero()))
			return nil
		}
	}
	w := &walker{
		opts: troupe.IterableOptions[walk]{OnCancel: note("cancel"), OnStop: note("stop"), OnComplete: note("complete")},
		each: func(ctx context.Context, _ string, i int) error {
			if i < 2 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		},
	}
	rdb := testkit.Redis(t)
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: w.registry()})
	jid := harness.Must(k.Client.Push(t.Context(), walk{N: 5}))(t)
	k.Await("the third item", w.reached(jid, 2))
	if !k.Daemon.Cancel(jid) {
		t.Error("it does not run")
	}
	k.Await("the end", func() bool { return k.Stats().Processed == 1 })
	if s := k.Stats(); s.Failed != 0 {
		t.Errorf("%d failed", s.Failed)
	}
	harness.Equal(t, "hooks", strings.Join(hooks, ", "), "cancel <nil> true, stop <nil> true, complete <nil> true")
}

// The recorder keeps the newest, and what could not be written for the next time.
func TestTheFlightRecorderIsBounded(t *testing.T) {
	rdb := testkit.Redis(t)
	var r troupe.Registry
	troupe.HandleClass(&r, "Fails", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return errors.New("boom\nand more") }))
	troupe.HandleClass(&r, "Done", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return nil }))
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r})
	for i := range 1200 {
		class := "Fails"
		if i%2 == 1 {
			class = "Done"
		}
		rdb.LPush(t.Context(), "queue:default", fmt.Sprintf(`{"class":%q,"args":[],"retry":0,"jid":"%024d"}`, class, i))
	}
	k.Await("all", func() bool { return k.Stats().Processed == 1200 })
	k.Stop()
	records, err := flight.Read(t.Context(), rdb, k.Daemon.Identity())
	if err != nil || len(records) != flight.Most {
		t.Fatalf("%d records, %v", len(records), err)
	}
	kinds := map[string]int{}
	for _, rec := range records {
		kinds[rec.Kind]++
		if rec.Kind == outcomes.Failed.Kind() && (rec.Text != "boom" || rec.Class != "Fails" || rec.Queue != "default" || rec.Actor == "") {
			t.Fatalf("record %+v", rec)
		}
	}
	if kinds[flight.Quiet] != 1 || kinds[flight.Stop] != 1 || kinds[outcomes.Failed.Kind()] < 400 || kinds[outcomes.Died.Kind()] < 400 {
		t.Errorf("kinds %v", kinds)
	}
	processes, err := flight.Processes(t.Context(), rdb)
	if err != nil || len(processes) != 1 || processes[0] != k.Daemon.Identity() {
		t.Errorf("processes %v, %v", processes, err)
	}
}

// slowSetter is a fetcher whose first SetQueues takes its time, as one does while Redis is slow.
type slowSetter struct {
	fetch.QueueSetter
	calls       atomic.Int64
	began, goOn chan struct{}
}

func (s *slowSetter) SetQueues(ctx context.Context, q fetch.Queues) error {
	err := s.QueueSetter.SetQueues(ctx, q)
	if s.calls.Add(1) == 1 {
		close(s.began)
		<-s.goOn
	}
	return err
}

// What one Configure does not ask for stays as another one has made it meanwhile, and the queues
// that are shown are those that the fetcher has.
func TestConfiguresAtOnceLoseNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSetter{began: make(chan struct{}), goOn: make(chan struct{})}
		ran := make(chan string, 10)
		var r troupe.Registry
		troupe.HandleClass(&r, "Job", troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error { ran <- p.Queue(); return nil }))
		k := testkit.Start(t, actors.Config{Redis: testkit.NewMemory(t).Client, Registry: &r, Capsules: []actors.Capsule{{
			Concurrency: 10, Queues: fetch.Strict{"a"},
			Fetch: func(e fetch.Env) (fetch.Fetcher, error) {
				f, err := fetch.NewReliable(e)
				s.QueueSetter = f.(fetch.QueueSetter)
				return s, err
			},
		}}})
		done := make(chan error, 3)
		configure := func(c actors.Capsule) { done <- k.Configure(ctx, c) }
		go configure(actors.Capsule{Queues: fetch.Strict{"b"}}) // a reload
		<-s.began
		configure(actors.Capsule{Concurrency: 3}) // an operator meanwhile
		if h := k.Health(); h.Slots != 3 {
			t.Errorf("%d processors while the queues are changed, want the 3 that were asked for", h.Slots)
		}
		late, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := k.Configure(late, actors.Capsule{Queues: fetch.Strict{"x"}}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a change of the queues that had to wait for longer than its context: %v", err)
		}
		go configure(actors.Capsule{Queues: fetch.Strict{"c"}}) // another one
		synctest.Wait()
		close(s.goOn)
		for range 3 {
			harness.Check(t, <-done)
		}
		if h := k.Health(); h.Slots != 3 {
			t.Errorf("%d processors, want the 3 that were asked for last", h.Slots)
		}
		for _, queue := range []string{"a", "b", "c"} {
			k.PushClass("Job", nil, client.Queue(queue))
		}
		time.Sleep(time.Minute)
		if queue := <-ran; queue != "c" || len(ran) > 0 {
			t.Errorf("ran a job of queue %s and %d more, want that of c alone", queue, len(ran))
		}
	})
}

// Numbers of limits change for all processes, behind what was set by hand; nothing changes if one of them cannot.
func TestNumbersOfLimitsChange(t *testing.T) {
	var r troupe.Registry
	h := troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return nil })
	at := func(n int) troupe.Limit { return troupe.Limit{Name: "a", AtOnce: n, By: "0"} }
	api := troupe.Limit{Name: "api", Rate: 10, Breaker: &troupe.Breaker{Failures: 3, Counts: func(error) bool { return true }}}
	troupe.HandleClass(&r, "A", h, troupe.Options{Limits: []troupe.Limit{at(1), api}})
	troupe.HandleClass(&r, "B", h, troupe.Options{Limits: []troupe.Limit{at(1)}})
	testkit.Virtual(t, actors.Config{Registry: &r, HeartbeatInterval: time.Second}, func(t *testing.T, k *testkit.Kit) {
		ctx := t.Context()
		text := func(name string) string { return k.Redis.HGet(ctx, "troupe:limits", name).Val() }
		harness.OK(t, k.ConfigureLimits(ctx))
		other := troupe.Limit{Name: "api", Rate: 20, Per: time.Minute, Burst: 4, Breaker: &troupe.Breaker{Failures: 5, Rest: time.Second}}
		harness.OK(t, k.ConfigureLimits(ctx, at(7), other))
		harness.Equal(t, "at once", text("a"), "7")
		harness.Equal(t, "rate", text("api"), "4 3 breaker 5 1")
		for want, l := range map[string]troupe.Limit{
			"is of another kind": {Name: "a", AtOnce: 2}, "is not of this daemon": {Name: "none", AtOnce: 2}, "expected one of them above 0": {Name: "api"}, "kind: that takes": {Name: "api", Rate: 5},
		} {
			harness.ErrorHas(t, want, k.ConfigureLimits(ctx, at(8), l), want)
		}
		harness.Equal(t, "after a fault", text("a"), "7")
		k.Redis.HSet(ctx, "troupe:limits", "a", "9") // by another configuration, which has started since
		harness.OK(t, k.ConfigureLimits(ctx, at(7), other))
		harness.Equal(t, "nothing has changed here", text("a"), "9")
		k.Redis.HSet(ctx, "troupe:limits", "a", "0 pinned 9")
		harness.OK(t, k.ConfigureLimits(ctx, at(3)))
		harness.Equal(t, "behind what was set by hand", text("a"), "0 pinned 3")
		k.Redis.Del(ctx, "troupe:limits")
		k.Await("a beat writes it again", func() bool { return text("a") == "3" && text("api") == "4 3 breaker 5 1" })
	})
}
