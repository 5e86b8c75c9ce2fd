package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

type step struct {
	N int `arg:"0"`
}

func (step) Class() string { return "Step" }

// What a job pushes by client.Within is pushed when it is done, and not when it has failed; a chain goes on.
func TestWithinAndChainsOfAFake(t *testing.T) {
	var r troupe.Registry
	var order []int
	fail := true
	troupe.Handle(&r, func(ctx context.Context, job *troupe.Job[step]) error {
		order = append(order, job.Args.N)
		if _, err := client.Within(ctx).PushClass(ctx, "Child", nil); err != nil {
			return err
		}
		if job.Args.N == 2 && fail {
			return errors.New("no")
		}
		return nil
	})
	troupe.HandleClass(&r, "Child", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return nil }))

	p := testkit.Fake(t)
	if _, err := p.Client.PushChain(t.Context(), client.Job(step{1}), client.Job(step{2}), client.Job(step{3})); err != nil {
		t.Fatal(err)
	}
	classes := func() (names []string) {
		for _, j := range p.Jobs() {
			names = append(names, j.Class())
		}
		return names
	}
	if _, err := p.DrainOne(t.Context(), &r); err != nil {
		t.Fatal(err)
	}
	harness.Equal(t, "after the first", fmt.Sprint(classes()), fmt.Sprint([]string{"Child", "Step"}))
	if _, err := p.Drain(t.Context(), &r); err == nil {
		t.Error("the second has not failed")
	}
	harness.Equal(t, "after a failure", fmt.Sprint(classes()), fmt.Sprint([]string(nil)))
	harness.Equal(t, "order", fmt.Sprint(order), fmt.Sprint([]int{1, 2}))

	fail, order = false, nil
	inline := testkit.Inline(t, &r, nil)
	if _, err := inline.Client.PushChain(t.Context(), client.Job(step{1}), client.Job(step{2}), client.Job(step{3})); err != nil {
		t.Fatal(err)
	}
	harness.Equal(t, "order inline", fmt.Sprint(order), fmt.Sprint([]int{1, 2, 3}))
	harness.Equal(t, "pushed inline", len(inline.All()), 6)
}

// A fake refuses duplicates until their job has run.
func TestUniqueOfAFake(t *testing.T) {
	var r troupe.Registry
	troupe.Handle(&r, func(context.Context, *troupe.Job[step]) error { return nil })
	p := testkit.Fake(t)
	unique := client.Unique(troupe.Unique{})
	for round := range 2 {
		if _, err := p.Client.Push(t.Context(), step{1}, unique); err != nil {
			t.Fatal(err)
		}
		if dup := new(client.DuplicateError); !errors.As(push(t, p, unique), &dup) {
			t.Errorf("round %d: the second push is no duplicate", round)
		}
		harness.Equal(t, "waiting", len(p.Jobs()), 1)
		if _, err := p.Drain(t.Context(), &r); err != nil {
			t.Fatal(err)
		}
	}
}

func push(t *testing.T, p *testkit.Pushes, opts ...client.Option) error {
	_, err := p.Client.Push(t.Context(), step{1}, opts...)
	return err
}

// A fake tells the unique jobs of one push apart.
func TestUniqueJobsOfOnePushOfAFake(t *testing.T) {
	p := testkit.Fake(t)
	unique := client.Unique(troupe.Unique{})
	jids, err := p.Client.PushMany(t.Context(), client.Job(step{1}, unique), client.Job(step{2}, unique), client.Job(step{1}, unique), client.Job(step{3}, unique))
	if !errors.Is(err, client.ErrStopped) || len(jids) != 4 || jids[2] != "" {
		t.Errorf("jids %q, error %v; want the third stopped", jids, err)
	}
	testkit.RequirePushedMany(t, p, step{1}, step{2}, step{3})
	harness.Equal(t, "waiting", len(p.Jobs()), 3)
}

// A duplicate that a handler pushes with its ack is left out, as by a daemon: the job is done, and the others are there.
func TestDuplicatesWithinAreLeftOutByAFake(t *testing.T) {
	var r troupe.Registry
	unique := client.Unique(troupe.Unique{})
	troupe.Handle(&r, func(ctx context.Context, job *troupe.Job[parent]) error {
		_, err := client.Within(ctx).PushMany(ctx, client.Job(step{1}, unique), client.Job(step{2}), client.Job(step{3}, unique))
		return err
	})
	troupe.Handle(&r, func(context.Context, *troupe.Job[step]) error { return nil })
	p := testkit.Fake(t)
	for _, args := range []troupe.Args{step{1}, parent{}} {
		var opts []client.Option
		if args == (step{1}) {
			opts = append(opts, unique)
		}
		if _, err := p.Client.Push(t.Context(), args, opts...); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.DrainQueue(t.Context(), "parents", &r); err != nil {
		t.Fatal(err)
	}
	if n, err := p.Drain(t.Context(), &r); err != nil || n != 3 {
		t.Errorf("%d jobs have run, with the error %v; want 3: the duplicate is left out", n, err)
	}
}

// The items of an iterable job may push more than a run keeps, since that goes with each save of the cursor. What the items
// before the one that fails have pushed is there. Both are so by a daemon.
func TestItemsPushByAFake(t *testing.T) {
	failing := 1200
	var r troupe.Registry
	troupe.HandleIterable(&r,
		func(_ context.Context, _ *troupe.Job[parent], from *int, yield func(int, int) bool) error {
			return troupe.YieldSlice(make([]int, 1210), from, yield)
		},
		func(ctx context.Context, job *troupe.Job[parent], _ int) error {
			it, err := client.Within(ctx).Push(ctx, step{})
			if job.Args.Pushed++; err == nil && job.Args.Pushed > failing {
				err = fmt.Errorf("no, not %s", it)
			}
			return err
		})
	p := testkit.Fake(t)
	if _, err := p.Client.Push(t.Context(), parent{}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.DrainOne(t.Context(), &r); err == nil || !strings.HasPrefix(err.Error(), "no, not ") {
		t.Errorf("error %v, want that of the item that fails", err)
	}
	harness.Equal(t, "jobs of the items before", len(p.Jobs()), failing)

	failing = 2000
	wrong := errors.New("the child has failed")
	troupe.Handle(&r, func(context.Context, *troupe.Job[step]) error { return wrong })
	if _, err := testkit.Inline(t, &r, nil).Client.Push(t.Context(), parent{}); !errors.Is(err, wrong) {
		t.Errorf("inline: error %v, want that of the first child", err)
	}
}

type parent struct{ Pushed int }

func (parent) Class() string { return "Parent" }

func (parent) Defaults() troupe.Options { return troupe.Options{Queue: "parents"} }

type sum struct{ A, B int }

func (sum) Class() string { return "Sum" }

// The result of a job that a fake has run is read by RequireResult; one that failed has none.
func TestResultsOfAFake(t *testing.T) {
	var r troupe.Registry
	troupe.HandleResult(&r, func(_ context.Context, job *troupe.Job[sum]) (int, error) {
		job.SetProgress(1, 2, "half")
		if job.Args.A < 0 {
			return 1, errors.New("no")
		}
		return job.Args.A + job.Args.B, nil
	})
	p := testkit.Fake(t)
	jid := harness.Must(p.Client.Push(t.Context(), sum{2, 3}))(t)
	fails := harness.Must(p.Client.Push(t.Context(), sum{-1, 3}))(t)
	harness.Fails(t, func(tb testing.TB) { testkit.RequireResult[int](tb, p, jid) }, "is not done")
	if n, err := p.Drain(t.Context(), &r); n != 2 || err == nil {
		t.Errorf("%d have run, %v", n, err)
	}
	harness.Equal(t, "the result", testkit.RequireResult[int](t, p, jid), 5)
	harness.Fails(t, func(tb testing.TB) { testkit.RequireResult[string](tb, p, jid) }, "does not fit")
	harness.Fails(t, func(tb testing.TB) { testkit.RequireResult[int](tb, p, fails) }, "is not done")
	inline := testkit.Inline(t, &r, nil)
	jid = harness.Must(inline.Client.Push(t.Context(), sum{4, 5}))(t)
	harness.Equal(t, "the result of one that ran inline", testkit.RequireResult[int](t, inline, jid), 9)
}

// PerformMany makes one call with all jobs, in order, and returns their outcomes; a job whose arguments do not fit does not come to it.
func TestPerformMany(t *testing.T) {
	calls := 0
	no := errors.New("no")
	many := func(_ context.Context, jobs []*troupe.Job[step]) []error {
		calls++
		var ns []int
		errs := make([]error, len(jobs))
		for i, job := range jobs {
			if ns = append(ns, job.Args.N); job.Args.N == 2 {
				errs[i] = no
			}
		}
		harness.EqualList(t, "jobs of the call", ns, []int{1, 2, 3})
		return errs
	}
	errs := testkit.PerformMany(t, t.Context(), many, []step{{1}, {2}, {3}})
	if calls != 1 || len(errs) != 3 || errs[0] != nil || !errors.Is(errs[1], no) || errs[2] != nil {
		t.Errorf("%d calls, %v", calls, errs)
	}
	errs = testkit.PerformMany(t, t.Context(), func(context.Context, []*troupe.Job[step]) []error { return nil }, []step{{1}, {2}})
	if len(errs) != 2 || errs[0] != nil || errs[1] != nil {
		t.Errorf("of nil: %v", errs)
	}
	errs = testkit.PerformMany(t, t.Context(), func(context.Context, []*troupe.Job[step]) []error { panic("boom") }, []step{{1}, {2}})
	for _, err := range errs {
		if p := new(troupe.PanicError); !errors.As(err, &p) {
			t.Errorf("of a panic: %v", errs)
		}
	}
	harness.Equal(t, "of none", len(testkit.PerformMany(t, t.Context(), many, nil)), 0)
}
