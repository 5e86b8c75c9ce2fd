package testkit_test

import (
	"context"
	"errors"
	"fmt"
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
