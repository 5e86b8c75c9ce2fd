package supervised

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// Replacements starts fresh actors for the children that a strategy replaces. The
// strategy stops such a child and remembers it; the supervisor asks about each
// child that ends. The state of it is the strategy's and the timer here: a
// supervisor that restarts begins with all its children anyway.
type Replacements struct {
	o     *Proxy
	start func(ctx actor.Context, name string)
	epoch uint64
	timer *time.Timer
	gone  map[string]bool // paths of those that ended and have no replacement yet
}

// replacer is a strategy that has children replaced instead of restarted, such as
// strategy.Strategy. They are called in the supervisor's turn.
type replacer interface {
	Ended(path string) bool
	Due(now time.Time) (paths []string, next time.Time)
}

// NewReplacements makes the Replacements of the supervisor behind o; start starts the
// child of a name.
func NewReplacements(o *Proxy, start func(ctx actor.Context, name string)) *Replacements {
	return &Replacements{o: o, start: start}
}

// Due is the timer of Replacements: a supervisor hands it to On.
type Due struct{ epoch uint64 }

// IgnoreDeadLetterLogging says that one to an actor that is gone is not to be told of.
func (Due) IgnoreDeadLetterLogging() {}

// Ended tells whether the child at path, which has ended, gets a replacement;
// else its strategy has stopped it for good, or it has ended by itself.
func (r *Replacements) Ended(path string) (replaced bool) {
	if strategy, ok := r.o.strategy.(replacer); ok {
		if err := r.o.call(func() { replaced = strategy.Ended(path) }); err != nil {
			r.o.s.overruled(r.o.node, r.o.name(), err)
			replaced = false
		}
	}
	if !replaced {
		r.o.s.find(path).waits(time.Time{})
		return false
	}
	if r.gone == nil {
		r.gone = map[string]bool{}
	}
	r.gone[path] = true
	return true
}

// Step starts those whose time has come. A supervisor calls it after Ended and
// on its Due; never once it is stopping.
func (r *Replacements) Step(ctx actor.Context) {
	strategy, ok := r.o.strategy.(replacer)
	if !ok {
		return
	}
	if r.epoch == 0 {
		r.epoch = r.o.s.NextEpoch()
	}
	if r.o.node.isOver() { // it has escalated: when it is to go on, it takes messages again
		ctx.Send(ctx.Self(), Due{r.epoch})
		return
	}
	var paths []string
	var next time.Time
	now := time.Now()
	if err := r.o.call(func() { paths, next = strategy.Due(now) }); err != nil {
		r.o.s.overruled(r.o.node, r.o.name(), err)
		return
	}
	for _, path := range paths {
		if r.gone[path] { // whatever a user's strategy says
			delete(r.gone, path)
			_, name := SplitPath(path)
			r.start(ctx, name)
		}
	}
	r.Stop()
	if next.IsZero() {
		return
	}
	sys, self, m := r.o.s, ctx.Self(), Due{r.epoch}
	r.timer = time.AfterFunc(next.Sub(now), func() { sys.Root().Send(self, m) })
}

// On is Step for a Due of this incarnation.
func (r *Replacements) On(ctx actor.Context, m Due) {
	if m.epoch == r.epoch {
		r.Step(ctx)
	}
}

// Stop ends the wait for the next start.
func (r *Replacements) Stop() {
	if r.timer != nil {
		r.timer.Stop()
	}
}
