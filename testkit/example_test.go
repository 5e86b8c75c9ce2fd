package testkit_test

import (
	"context"
	"errors"
	"testing"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/testkit"
)

// Greeting is a class of jobs.
type Greeting struct{ Name string }

func (Greeting) Class() string { return "Greeting" }

func greet(_ context.Context, job *troupe.Job[Greeting]) error {
	if job.Args.Name == "" {
		return troupe.Kill(errors.New("nobody to greet"))
	}
	return nil
}

var t *testing.T // of your test

// A handler alone, as the daemon would call it.
func ExamplePerform() { //nolint:testableexamples // it takes a *testing.T
	if err := testkit.Perform(t, t.Context(), greet, Greeting{Name: "Ada"}); err != nil {
		t.Error(err)
	}
}

// What a program pushes, without a Redis.
func ExampleFake() { //nolint:testableexamples // it takes a *testing.T
	pushes := testkit.Fake(t)
	signUp := func(ctx context.Context) error { // the code to be tested gets pushes.Client
		_, err := pushes.Client.Push(ctx, Greeting{Name: "Ada"})
		return err
	}
	if err := signUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	job := testkit.RequirePushed[Greeting](t, pushes)
	t.Log(job.Args.Name)
}

// A whole tree with a Redis of its own.
func ExampleStart() { //nolint:testableexamples // it takes a *testing.T
	var jobs troupe.Registry
	troupe.Handle(&jobs, greet)
	k := testkit.Start(t, actors.Config{Redis: testkit.Redis(t), Registry: &jobs})
	k.Push(Greeting{Name: "Ada"})
	k.Await("it is done", func() bool { return k.Stats().Processed == 1 && k.Settled() })
}

// A whole tree in virtual time: it crashes, and the restart takes no time.
func ExampleVirtual() { //nolint:testableexamples // it takes a *testing.T
	var jobs troupe.Registry
	troupe.Handle(&jobs, greet)
	testkit.Virtual(t, actors.Config{Registry: &jobs}, func(t *testing.T, k *testkit.Kit) {
		k.Crash("launcher/default/processor-0", errors.New("boom"))
		k.Await("the restart", func() bool { return k.Tree().Find("launcher/default/processor-0").Restarts == 1 })
	})
}
