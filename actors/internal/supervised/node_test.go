package supervised

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/tree"
	"github.com/troupehq/troupe/supervisor"
)

const launcherName = "launcher"

// bare is a System that tells nobody of what happens.
func bare(t *testing.T) *System {
	t.Helper()
	d := New(zerolog.Nop(), "", launcherName, func(event.Event) {})
	d.Begin()
	return d
}

// rowOf is the row of the actor at path.
func rowOf(s *System, path string) Row {
	for _, r := range s.Snapshot(time.Now()) {
		if r.Path == path {
			return r
		}
	}
	return Row{}
}

type recorder struct {
	on func(ctx actor.Context)
}

func (r recorder) Receive(ctx actor.Context) { r.on(ctx) }

// wait fails the test if ch is not closed in time; nothing hangs.
func wait(t *testing.T, what string, ch <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	select {
	case <-ch:
	case <-ctx.Done():
		t.Fatalf("never happened: %s", what)
	}
}

// terminated is closed when pid has ended.
func terminated(d *System, pid *actor.PID) <-chan struct{} {
	done := make(chan struct{})
	f := actor.NewFuture(d.actors.Load(), 20*time.Second)
	p, ok := d.actors.Load().ProcessRegistry.Get(pid)
	if !ok {
		close(done)
		return done
	}
	p.SendSystemMessage(pid, &actor.Watch{Watcher: f.PID()})
	go func() {
		if f.Wait() == nil {
			close(done)
		}
	}()
	return done
}

// A Restart that comes after a Stop would revive a stopped actor (a twin that is
// in no registry), or lose the Stop.
func TestRestartAfterStopIsDropped(t *testing.T) {
	d := bare(t)
	var mu sync.Mutex
	started := 0
	held := make(chan struct{})
	pid, err := d.actors.Load().Root.SpawnNamed(d.Props("x", "", func() actor.Actor {
		return recorder{func(ctx actor.Context) {
			switch ctx.Message().(type) {
			case *actor.Started:
				mu.Lock()
				started++
				mu.Unlock()
			case Wake:
				<-held
			}
		}}
	}), "x")
	harness.OK(t, err)
	done := terminated(d, pid)
	d.Root().Send(pid, Wake{}) // both system messages are queued behind it
	p, _ := d.actors.Load().ProcessRegistry.Get(pid)
	p.SendSystemMessage(pid, &actor.Stop{})
	p.SendSystemMessage(pid, &actor.Restart{})
	close(held)
	wait(t, "the stop", done)
	c := d.all()[0]
	c.mu.Lock()
	defer c.mu.Unlock()
	mu.Lock()
	defer mu.Unlock()
	if started != 1 || c.state != tree.StateStopped {
		t.Errorf("started %d times, state %s", started, c.state)
	}
}

// A message to a name that is being spawned meets a mailbox without a dispatcher.
func TestMessagesDuringASpawnAreHeld(t *testing.T) {
	d := bare(t)
	got := make(chan string, 2)
	props := d.Props("x", "", func() actor.Actor {
		return recorder{func(ctx actor.Context) {
			switch ctx.Message().(type) {
			case *actor.Started, Wake:
				got <- fmt.Sprintf("%T", ctx.Message())
			}
		}}
	}, actor.WithOnInit(func(ctx actor.Context) {
		// registered, and not yet started: exactly the gap
		d.Root().Send(actor.NewPID(d.actors.Load().Address(), "x"), Wake{})
	}))
	harness.Must(d.actors.Load().Root.SpawnNamed(props, "x"))(t)
	for _, want := range []string{"*actor.Started", "supervised.Wake"} {
		select {
		case g := <-got:
			if g != want {
				t.Errorf("got %s, want %s", g, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s never came", want)
		}
	}
}

// A panic in one of these would leave the parent waiting for ever.
func TestPanicsInLifecycleMessagesDoNotHangTheParent(t *testing.T) {
	for _, at := range []any{&actor.Restarting{}, &actor.Stopping{}, &actor.Stopped{}} {
		t.Run(fmt.Sprintf("%T", at), func(t *testing.T) {
			d := bare(t)
			var log bytes.Buffer
			d.log = zerolog.New(zerolog.SyncWriter(&log))
			up := make(chan *actor.PID, 8)
			child := d.Props("child", "", func() actor.Actor {
				return recorder{func(ctx actor.Context) {
					if _, ok := ctx.Message().(*actor.Started); ok {
						up <- ctx.Self()
					}
					if fmt.Sprintf("%T", ctx.Message()) == fmt.Sprintf("%T", at) {
						panic("in a lifecycle message")
					}
				}}
			})
			pid, err := d.actors.Load().Root.SpawnNamed(d.Props("parent", "", func() actor.Actor {
				return recorder{func(ctx actor.Context) {
					if _, ok := ctx.Message().(*actor.Started); ok {
						Child(ctx, child, "child")
					}
				}}
			}), "parent")
			harness.OK(t, err)
			first := <-up
			if _, restarting := at.(*actor.Restarting); restarting {
				d.Root().Send(first, Crash{Reason: errors.New("boom")})
				again := make(chan struct{})
				go func() { <-up; close(again) }()
				wait(t, "the restart", again)
			}
			done := terminated(d, pid)
			d.Root().Stop(pid)
			wait(t, "the end of the parent", done)
			for _, n := range d.Snapshot(time.Now()) {
				if n.Role == "child" && n.LastFailure == "" {
					t.Error("the panic left no trace in the tree")
				}
			}
			for _, want := range []string{`"actor":"parent/child"`, "panic: in a lifecycle message", "TestPanicsInLifecycleMessages", "an actor panicked while "} {
				if !strings.Contains(log.String(), want) {
					t.Errorf("the log does not say %s:\n%s", want, log.String())
				}
			}
		})
	}
}

func TestStackOfACrashReachesTheStrategy(t *testing.T) {
	d := bare(t)
	got := make(chan supervisor.Failure, 1)
	strategy := supervisor.OneForOne(supervisor.Spec{Decide: func(f supervisor.Failure) supervisor.Directive {
		got <- f
		return supervisor.Stop
	}})
	_, err := d.actors.Load().Root.SpawnNamed(d.SupervisorProps("parent", "", strategy, func(*Proxy) actor.Actor {
		return recorder{func(ctx actor.Context) {
			if _, ok := ctx.Message().(*actor.Started); ok {
				Child(ctx, d.Props("child", "", func() actor.Actor { return recorder{nestedPanic} }), "child")
			}
		}}
	}), "parent")
	harness.OK(t, err)
	f := <-got
	if !containsFrame(f.Stack, "nestedPanic") || f.Path != "parent/child" {
		t.Errorf("failure of %s with stack:\n%s", f.Path, f.Stack)
	}
}

func nestedPanic(ctx actor.Context) {
	if _, ok := ctx.Message().(*actor.Started); ok {
		panic("deep inside")
	}
}

func containsFrame(stack []byte, name string) bool { return bytes.Contains(stack, []byte(name)) }
