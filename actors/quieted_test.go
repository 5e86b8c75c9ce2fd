package actors_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/supervisor"
	"github.com/troupehq/troupe/testkit"
)

func TestAResumeIsToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := testkit.Start(t, actors.Config{Logger: zerolog.Nop(), Capsules: []actors.Capsule{{
			Concurrency: 1, Strategy: supervisor.OneForOne(supervisor.Spec{Decide: func(supervisor.Failure) supervisor.Directive { return supervisor.Resume }}),
		}}})
		const processor = "launcher/default/processor-0"
		k.Expect(testkit.Events(func(e event.ActorResumed) bool { return e.Path == processor }).Times(1), func() { k.Crash(processor, errInjected) })
		k.Expect(testkit.Events[event.ActorResumed]().Times(0), func() { k.Crash("launcher/poller", errInjected) }) // restarted
	})
}

// A capsule that a strategy has made quiet says so, and why; the daemon is quiet
// when all of them are.
func TestACapsuleThatItsStrategyMadeQuietSaysSo(t *testing.T) {
	stops := func() *supervisor.Strategy {
		return supervisor.OneForOne(supervisor.Spec{Decide: func(supervisor.Failure) supervisor.Directive { return supervisor.Stop }})
	}
	for _, stopped := range []string{"launcher/a/fetcher", "launcher/a/processor-0", "launcher/a"} {
		t.Run(stopped, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := testkit.Start(t, actors.Config{
					Logger: zerolog.Nop(), Strategy: stops(),
					Capsules: []actors.Capsule{{Name: "a", Concurrency: 1, Strategy: stops()}, {Name: "b", Concurrency: 1, Strategy: stops()}},
				})
				quiet := testkit.Events(func(e event.CapsuleQuiet) bool { return e.Capsule == "a" && errors.Is(e.Err, errInjected) })
				k.Expect(quiet.Times(1), func() { k.Crash(stopped, errInjected) })
				want := "(quiet: " + stopped + " was stopped by its strategy)"
				if n := k.Tree().Find("launcher/a"); n.Note != want {
					t.Errorf("note %q, want %q", n.Note, want)
				}
				if n := k.Tree().Find("launcher/b"); n.Note != "" || k.Stats().Quiet {
					t.Errorf("the other: note %q, daemon quiet %v", n.Note, k.Stats().Quiet)
				}
				k.Crash("launcher/b/fetcher", errInjected)
				k.Await("quiet", func() bool { return k.Stats().Quiet })
			})
		})
	}
}
