package actors_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/supervisor"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/script"
)

func escalates(supervisor.Failure) supervisor.Directive { return supervisor.Escalate }

// Who says Escalate means it: no budget of those above is spent on it. The
// daemon ends in good order, and the first time.
func TestADecidedEscalationEndsTheDaemonAtOnce(t *testing.T) {
	decided := func() any {
		return supervisor.OneForOne(supervisor.Spec{Intensity: 100, Decide: escalates})
	}
	byHand := func() any {
		return strategyFunc(func(sup actor.Supervisor, _ *actor.PID, reason any) { sup.EscalateFailure(reason, nil) })
	}
	for name, make := range map[string]func() any{"a decider": decided, "a strategy": byHand} {
		for _, at := range atEveryLevel {
			t.Run(name+" of the "+at.role, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := script.New(t)
					var escalated told
					k := testkit.Start(t, withStrategy(actors.Config{
						Registry: s.Registry(), Logger: zerolog.Nop(), Capsules: []actors.Capsule{{Concurrency: 2}},
						Subscribers: []func(event.Event){escalated.subscribe(func(e event.Event) string {
							if e, ok := e.(event.ActorEscalated); ok {
								return e.Path
							}
							return ""
						})},
					}, at.supervisor, make()))
					push(k, 1, script.Hang())
					k.Await("it runs", func() bool { return k.Stats().Busy == 1 })
					k.Crash(at.child, errInjected)
					time.Sleep(5 * time.Second)
					select {
					case <-k.Done():
					default:
						t.Fatalf("runs on\n%s", k.Tree())
					}
					if err := k.Err(); err == nil || !strings.HasSuffix(err.Error(), "escalated: "+at.child+" failed: injected crash") {
						t.Errorf("error %v", err)
					}
					if r := k.Report(); len(r.Requeued) != 1 {
						t.Errorf("drain report: %s", r)
					}
					want := []string{"launcher"}
					if at.supervisor != "launcher" {
						want = []string{at.supervisor, "launcher"}
					}
					harness.EqualList(t, "told of", escalated.all(), want)
				})
			})
		}
	}
}

// A capsule that spends its budget again and again, too slowly for that of the
// launcher, is not restarted for ever.
func TestACapsuleThatAlwaysSpendsItsBudgetEndsTheDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := testkit.Start(t, actors.Config{Logger: zerolog.Nop(), Capsules: []actors.Capsule{{
			Concurrency: 1, Strategy: supervisor.OneForOne(supervisor.Spec{Intensity: -1}),
		}}})
		crashes := 0
		for ; k.Err() == nil && crashes < 100; crashes++ {
			k.Crash("launcher/default/fetcher", errInjected)
			time.Sleep(5 * time.Minute)
		}
		if restarts := k.Tree().Find("launcher/default").Restarts; crashes != 6 || restarts != 5 {
			t.Errorf("%d crashes, the manager restarted %d times", crashes, restarts)
		}
	})
}

// Once in a while is no reason to end: only what happens within an hour counts.
func TestACapsuleThatSeldomSpendsItsBudgetIsRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := testkit.Start(t, actors.Config{Logger: zerolog.Nop(), Capsules: []actors.Capsule{{
			Concurrency: 1, Strategy: supervisor.OneForOne(supervisor.Spec{Intensity: -1}),
		}}})
		k.Suspend("launcher/poller") // hours of virtual time, in which it would look twice a second
		times := 7                   // one more than its budget
		for range times {
			k.Crash("launcher/default/fetcher", errInjected)
			time.Sleep(15 * time.Minute)
		}
		if k.Err() != nil || k.Tree().Find("launcher/default").Restarts != times {
			t.Errorf("error %v\n%s", k.Err(), k.Tree())
		}
	})
}

// The launcher's own panics are not escalations: a few of them are forgiven.
func TestThePanicsOfTheLauncherHaveABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := testkit.Start(t, actors.Config{Logger: zerolog.Nop(), Capsules: []actors.Capsule{{Concurrency: 1}}})
		for i := range 6 {
			if k.Err() != nil {
				t.Fatalf("gave up after %d: %v", i, k.Err())
			}
			k.Crash("launcher", errInjected)
			time.Sleep(5 * time.Second)
		}
		if err := k.Err(); err == nil || !strings.HasPrefix(err.Error(), "restart budget spent (5 restarts in 1m0s): launcher failed") {
			t.Errorf("error %v", err)
		}
	})
}
