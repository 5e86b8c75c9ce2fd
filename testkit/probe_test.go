package testkit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/testkit"
)

type ping struct{ n int }
type pong struct{ n int }

// echo answers pings.
func echo(ctx actor.Context) {
	if p, ok := ctx.Message().(ping); ok {
		ctx.Respond(pong(p))
	}
}

// both runs f in real time and in a bubble.
func both(t *testing.T, f func(t *testing.T)) {
	t.Run("real", f)
	t.Run("bubble", func(t *testing.T) { synctest.Test(t, f) })
}

func TestProbeTalksWithAnActor(t *testing.T) {
	both(t, func(t *testing.T) {
		sys := testkit.NewSystem(t)
		p := testkit.NewProbe(t, sys)
		pid := sys.Root.Spawn(actor.PropsFromFunc(echo))
		p.Watch(pid)
		for n := range 3 {
			p.Send(pid, ping{n})
		}
		if m := testkit.ExpectMsg[pong](p); m.n != 0 {
			t.Errorf("first answer %+v", m)
		}
		if m := testkit.FishForMessage(p, func(m pong) bool { return m.n == 2 }); m.n != 2 {
			t.Errorf("fished %+v", m)
		}
		p.ExpectNoMsg(time.Millisecond)
		sys.Root.Stop(pid)
		p.ExpectTerminated(pid)
		p.Watch(pid) // has ended: told at once
		p.ExpectTerminated(pid)
	})
}

func TestProbeAnswers(t *testing.T) {
	both(t, func(t *testing.T) {
		sys := testkit.NewSystem(t)
		asking, answering := testkit.NewProbe(t, sys), testkit.NewProbe(t, sys)
		asking.Send(answering.PID(), ping{7})
		answering.ExpectMsgMatching("ping 7", func(m any) bool { return m == ping{7} })
		answering.Reply(pong{7})
		if m := testkit.ExpectMsg[pong](asking); m.n != 7 {
			t.Errorf("answer %+v", m)
		}
	})
}

func TestProbeWatchesActorsOfTheDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := testkit.Start(t, one(testkit.NewScripted(t), nil))
		p := k.Probe()
		p.Watch(k.PID(processor))
		k.Crash(processor, errBoom)
		p.ExpectNoMsg(time.Minute) // restarted, not ended
		k.Quiet()
		p.ExpectTerminated(k.PID(processor))
		if n, _ := k.Tree().Find(processor); n.State != actors.StateStopped {
			t.Errorf("state %s", n.State)
		}
	})
}

func TestProbeFailuresSayWhatCame(t *testing.T) {
	for name, c := range map[string]struct {
		f    func(p *testkit.TestProbe)
		want []string
	}{
		"nothing came": {func(p *testkit.TestProbe) { testkit.ExpectMsg[ping](p) }, []string{"expected testkit_test.ping, got nothing within 10s"}},
		"another type": {func(p *testkit.TestProbe) { p.Send(p.PID(), pong{3}); testkit.ExpectMsg[ping](p) }, []string{"expected testkit_test.ping, got testkit_test.pong {n:3}"}},
		"another value": {func(p *testkit.TestProbe) {
			p.Send(p.PID(), pong{3})
			p.ExpectMsgMatching("a four", func(any) bool { return false })
		}, []string{"expected a four, got testkit_test.pong {n:3}"}},
		"fished in vain":   {func(p *testkit.TestProbe) { p.Send(p.PID(), pong{3}); testkit.FishForMessage[ping](p, nil) }, []string{"fished 10s for testkit_test.ping", "pong {n:3}"}},
		"not silent":       {func(p *testkit.TestProbe) { p.Send(p.PID(), pong{3}); p.ExpectNoMsg(time.Second) }, []string{"expected no message for 1s, got testkit_test.pong {n:3}"}},
		"nobody to answer": {func(p *testkit.TestProbe) { p.Reply(pong{1}) }, []string{"nobody to reply"}},
		"somebody else":    {func(p *testkit.TestProbe) { p.Send(p.PID(), pong{3}); p.ExpectTerminated(p.PID()) }, []string{"expected the end of"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fails(t, func(tb testing.TB) { c.f(testkit.NewProbe(tb, testkit.NewSystem(tb))) }, c.want...)
			})
		})
	}
}
