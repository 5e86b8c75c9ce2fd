package supervised

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/internal/osproc"
)

// resumeTime is how long a loop rests that has panicked and whose actor was resumed.
const resumeTime = time.Second

// Loops is an actor whose work is done by goroutines of its own. They begin with each of
// its incarnations and end with it. If one panics, the actor crashes with that panic. They pause
// while the actor is held or suspended, and every message wakes them.
type Loops struct {
	system *System
	path   string
	parent context.Context
	steps  []func(*Loop)

	loops  []*Loop
	cancel context.CancelFunc
}

// Loop is one of the goroutines of a Loops.
type Loop struct {
	Context context.Context // ends with the incarnation

	owner *Loops
	name  string // for simulations
	woken chan struct{}
}

// NewLoops makes the actor at path. Its goroutines also end with parent; each step is the
// body of one, which returns when Sleep tells it to.
func NewLoops(parent context.Context, s *System, path string, steps ...func(*Loop)) *Loops {
	return &Loops{system: s, path: path, parent: parent, steps: steps, loops: make([]*Loop, len(steps))}
}

// Receive implements actor.Actor.
func (a *Loops) Receive(ctx actor.Context) {
	switch ctx.Message().(type) {
	case *actor.Started:
		c, cancel := context.WithCancel(a.parent)
		a.cancel = cancel
		for i := range a.loops {
			a.loops[i] = &Loop{Context: c, owner: a, name: a.path + " " + strconv.Itoa(i), woken: make(chan struct{}, 1)}
		}
		for i := range a.loops {
			a.start(i, 0)
		}
	case *actor.Restarting, *actor.Stopping:
		a.cancel()
	case Wake:
		a.Wake()
	}
}

// Paused is called when the actor is held or suspended: the loops see that for themselves.
func (a *Loops) Paused() {}

// Wake wakes these loops, by their numbers; without any, all.
func (a *Loops) Wake(which ...int) {
	for i, l := range a.loops {
		if len(which) == 0 || slices.Contains(which, i) {
			l.Wake()
		}
	}
}

// start runs loop i after a pause, and again should it panic and the actor be resumed.
func (a *Loops) start(i int, pause time.Duration) {
	l := a.loops[i]
	a.system.Spawn(a.path, func() {
		returned := false
		defer func() {
			v := recover()
			if v != nil {
				a.system.Panicked(a.path, v)
			}
			if !returned { // it may also have left the goroutine
				a.start(i, resumeTime) // a restart ends its context
			}
		}()
		if pause == 0 || l.Pause(pause) {
			a.steps[i](l)
		}
		returned = true
	})
}

// Wake ends a Sleep, or the next one if there is none now.
func (l *Loop) Wake() {
	select {
	case l.woken <- struct{}{}:
	default:
	}
}

// Sleep waits until it is woken, at most d (below 0: without a bound), and until the actor
// takes messages. False when the loop is to end.
func (l *Loop) Sleep(d time.Duration) bool { return l.wait(d, l.woken) }

// Pause is a Sleep that nothing ends early.
func (l *Loop) Pause(d time.Duration) bool { return l.wait(d, nil) }

// elapsed is a channel of a timer that is over.
var elapsed = func() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}()

func (l *Loop) wait(d time.Duration, woken <-chan struct{}) bool {
	var over <-chan time.Time
	switch {
	case d == 0: // no timer: in a bubble of synctest one of 0 crashes the race detector now and then
		over = elapsed
	case d > 0:
		t := time.NewTimer(d)
		defer t.Stop()
		over = t.C
	}
	a := l.owner
	for {
		select {
		case <-l.Context.Done():
		case <-woken:
		case <-over:
			select {
			case <-woken: // it looks now
			default:
			}
		}
		osproc.AwaitTurn(a.system.identity, l.name)
		if l.Context.Err() != nil {
			return false
		}
		if !a.system.Mailbox(a.path).Keeps() {
			return true
		}
		woken, over = l.woken, nil // it is woken when the actor takes messages again
	}
}
