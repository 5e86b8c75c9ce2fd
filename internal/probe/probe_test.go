package probe_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/door"
	"github.com/troupehq/troupe/internal/probe"
	"github.com/troupehq/troupe/internal/tbtest"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/script"
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

// endOf picks the message that an actor has ended.
func endOf(pid *actor.PID) func(*actor.Terminated) bool {
	return func(t *actor.Terminated) bool { return t.Who.GetId() == pid.GetId() }
}

func TestProbeTalksWithAnActor(t *testing.T) {
	both(t, func(t *testing.T) {
		sys := probe.System(t)
		p := probe.New(t, sys)
		pid := sys.Root.Spawn(actor.PropsFromFunc(echo))
		p.Watch(pid)
		for n := range 3 {
			p.Send(pid, ping{n})
		}
		if m := probe.Expect[pong](p); m.n != 0 {
			t.Errorf("first answer %+v", m)
		}
		if m := probe.Fish(p, func(m pong) bool { return m.n == 2 }); m.n != 2 {
			t.Errorf("fished %+v", m)
		}
		p.ExpectNone(time.Millisecond)
		sys.Root.Stop(pid)
		probe.Expect(p, endOf(pid))
		p.Watch(pid) // has ended: told at once
		probe.Expect(p, endOf(pid))
	})
}

func TestProbeAnswers(t *testing.T) {
	both(t, func(t *testing.T) {
		sys := probe.System(t)
		asking, answering := probe.New(t, sys), probe.New(t, sys)
		asking.Send(answering.PID(), ping{7})
		probe.Expect(answering, func(m ping) bool { return m.n == 7 })
		answering.Reply(pong{7})
		if m := probe.Expect[pong](asking); m.n != 7 {
			t.Errorf("answer %+v", m)
		}
	})
}

const processor = "launcher/default/processor-0"

func TestProbeWatchesActorsOfTheDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := testkit.Start(t, actors.Config{Registry: script.New(t).Registry(), Capsules: []actors.Capsule{{Concurrency: 1}}})
		sys := door.Of(k.Daemon).Actors()
		pid := actor.NewPID(sys.Address(), processor)
		p := probe.New(t, sys)
		p.Watch(pid)
		k.Crash(processor, errors.New("boom"))
		p.ExpectNone(time.Minute) // restarted, not ended
		k.Quiet()
		probe.Expect(p, endOf(pid))
		if n := k.Tree().Find(processor); n.State != actors.StateStopped {
			t.Errorf("state %s", n.State)
		}
	})
}

func TestProbeFailuresSayWhatCame(t *testing.T) {
	for name, c := range map[string]struct {
		f    func(p *probe.Probe)
		want []string
	}{
		"nothing came": {func(p *probe.Probe) { probe.Expect[ping](p) }, []string{"expected probe_test.ping, got nothing within 10s"}},
		"another type": {func(p *probe.Probe) { p.Send(p.PID(), pong{3}); probe.Expect[ping](p) }, []string{"expected probe_test.ping, got probe_test.pong {n:3}"}},
		"another value": {func(p *probe.Probe) {
			p.Send(p.PID(), pong{3})
			probe.Expect(p, func(m pong) bool { return m.n == 4 })
		}, []string{"expected another probe_test.pong, got {n:3}"}},
		"fished in vain":   {func(p *probe.Probe) { p.Send(p.PID(), pong{3}); probe.Fish[ping](p) }, []string{"fished 10s for probe_test.ping", "pong {n:3}"}},
		"not silent":       {func(p *probe.Probe) { p.Send(p.PID(), pong{3}); p.ExpectNone(time.Second) }, []string{"expected no message for 1s, got probe_test.pong {n:3}"}},
		"nobody to answer": {func(p *probe.Probe) { p.Reply(pong{1}) }, []string{"nobody to reply"}},
		"somebody else":    {func(p *probe.Probe) { p.Send(p.PID(), pong{3}); probe.Expect(p, endOf(p.PID())) }, []string{"expected *actor.Terminated, got"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tbtest.Fails(t, func(tb testing.TB) { c.f(probe.New(tb, probe.System(tb))) }, c.want...)
			})
		})
	}
}
