package actors

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/sched"
)

// poller moves due members of the retry and schedule sets into their queues.
// The two sets are served independently, each by at most one goroutine, batch
// after batch. Every process looks at Sidekiq's interval; the one watcher of the
// fleet also at the time of the next due member and when the set changes.
type poller struct {
	d       *Daemon
	epoch   uint64
	cancel  context.CancelFunc
	ctx     context.Context
	watcher bool
	told    bool // by Redis of every change, as watcher
	fleet   int  // processes, as the last renewal of the seat has shown
	failed  bool // the last poll
	sets    [2]pollSet
	timer   *time.Timer // the interval poll
	polls   int
	cleaned time.Time // the last look for dead processes
}

// pollerPart is the part that Redis serves or does not; each set is one of its own.
const pollerPart = launcherName + "/poller"

// Of so many interval polls one reads the sets themselves, and reports what is
// wrong with them; the others only ask when their first members are due.
const thorough = 12

type pollSet struct {
	set   sched.Set
	busy  bool
	again bool        // something changed while busy
	timer *time.Timer // the next due member
}

// kinds of tick.
const (
	tickInterval = iota
	tickDue0
	tickDue1
	tickWatch
)

type promoted struct {
	epoch uint64
	i     int
	next  time.Time // zero: nothing waits
	more  bool
	ok    bool
}

type polled struct {
	epoch uint64
	sets  [2]time.Time // when the first member is due; zero: none
	wait  time.Duration
	ok    bool
}

type watched struct {
	epoch uint64
	event sched.Event
}

type watchEnded struct {
	epoch uint64
	wait  time.Duration
}

func (p *poller) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		p.epoch = p.d.nextEpoch()
		p.ctx, p.cancel = context.WithCancel(p.d.settleCtx) // a launcher that is blocked stops no child
		p.sets = [2]pollSet{{set: sched.Retry}, {set: sched.Schedule}}
		p.after(ctx, &p.timer, p.d.initialPollWait(), tickInterval)
		p.watch(ctx)
	case quiet:
		ctx.Stop(ctx.Self())
	case wake:
		p.look(ctx, 0)
		p.look(ctx, 1)
	case tick:
		if m.epoch == p.epoch {
			p.tick(ctx, m.kind)
		}
	case polled:
		if m.epoch == p.epoch {
			p.polled(ctx, m)
		}
	case promoted:
		if m.epoch == p.epoch {
			p.promoted(ctx, m)
		}
	case watched:
		if m.epoch == p.epoch {
			p.watched(ctx, m.event)
		}
	case watchEnded:
		if m.epoch == p.epoch {
			p.watcher = false
			p.after(ctx, nil, m.wait, tickWatch)
			p.look(ctx, 0) // is Redis away? then its return is noticed by the next try
			p.look(ctx, 1)
		}
	case *actor.Restarting, *actor.Stopping:
		p.cancel()
		p.d.outage.leave(pollerPart, pollerPart+"/"+string(sched.Retry), pollerPart+"/"+string(sched.Schedule))
		for _, t := range []*time.Timer{p.timer, p.sets[0].timer, p.sets[1].timer} {
			if t != nil {
				t.Stop()
			}
		}
	}
}

// after sends tick kind to self after wait, replacing the timer in *t. What is
// due at once comes in the order of the kinds.
func (p *poller) after(ctx actor.Context, t **time.Timer, wait time.Duration, kind int) {
	self, d, m := ctx.Self(), p.d, tick{epoch: p.epoch, kind: kind}
	nt := time.AfterFunc(max(0, wait)+time.Duration(kind), func() { d.root().Send(self, m) })
	if t == nil {
		return
	}
	if *t != nil {
		(*t).Stop()
	}
	*t = nt
}

func (p *poller) tick(ctx actor.Context, kind int) {
	if p.ctx.Err() != nil {
		return
	}
	switch kind {
	case tickInterval:
		p.poll(ctx)
	case tickDue0, tickDue1:
		p.look(ctx, kind-tickDue0)
	case tickWatch:
		p.watch(ctx)
	}
}

// poll asks in one round trip whether anything is due, and how many processes
// share the work. A watcher that is told of every change knows both.
func (p *poller) poll(ctx actor.Context) {
	clean := p.polls%thorough == 0 || time.Since(p.cleaned) > time.Minute
	d, self, m, c := p.d, ctx.Self(), polled{epoch: p.epoch}, p.ctx
	if clean {
		p.cleaned = time.Now()
	} else if p.told && p.fleet > 0 && !p.failed {
		m.wait, m.ok = d.pollWait(p.fleet), true
		p.polled(ctx, m)
		return
	}
	m.wait = d.pollWait(p.fleet)
	d.spawn(self, func() {
		defer func() { d.root().Send(self, m) }() // also after a panic, if the strategy resumes us
		if clean {
			d.cleanUp(c)
		}
		o, ok := d.outlook(c)
		m.sets, m.wait, m.ok = [2]time.Time{o.Retry, o.Schedule}, d.pollWait(o.Processes), ok
	})
}

func (p *poller) polled(ctx actor.Context, m polled) {
	p.after(ctx, &p.timer, m.wait, tickInterval)
	p.failed = !m.ok
	all := p.failed || p.polls%thorough == 0
	p.polls++
	for i, due := range m.sets {
		switch {
		case all || !due.IsZero() && !due.After(time.Now()):
			p.look(ctx, i)
		case p.watcher && !due.IsZero():
			p.after(ctx, &p.sets[i].timer, time.Until(due), tickDue0+i)
		}
	}
}

// look starts a batch of set i unless one is under way.
func (p *poller) look(ctx actor.Context, i int) {
	s := &p.sets[i]
	if p.ctx.Err() != nil {
		return
	}
	if s.busy {
		s.again = true
		return
	}
	s.busy, s.again = true, false
	d, self, epoch, c, set := p.d, ctx.Self(), p.epoch, p.ctx, s.set
	d.spawn(self, func() {
		m := promoted{epoch: epoch, i: i}
		defer func() { d.root().Send(self, m) }()
		got, ok := d.promote(c, set)
		m.next, m.more, m.ok = got.Next, got.More, ok
	})
}

func (p *poller) promoted(ctx actor.Context, m promoted) {
	s := &p.sets[m.i]
	s.busy = false
	switch {
	case m.ok && (m.more || s.again):
		p.look(ctx, m.i)
	case m.ok && p.watcher && !m.next.IsZero():
		p.after(ctx, &s.timer, time.Until(m.next), tickDue0+m.i)
	case !m.ok && p.ctx.Err() == nil: // as a fetch: once a second until Redis is back
		p.after(ctx, &s.timer, time.Second, tickDue0+m.i)
	}
}

func (p *poller) watched(ctx actor.Context, e sched.Event) {
	switch e.Kind {
	case sched.Elected:
		p.watcher, p.told = true, e.Tracking
	case sched.Lost:
		p.watcher, p.fleet = false, 0
	case sched.Ring:
		if e.Processes > 0 {
			p.fleet = e.Processes
		}
		if !p.watcher || e.Next.IsZero() {
			return
		}
		for i := range p.sets { // which of the two it is, the look will show
			p.after(ctx, &p.sets[i].timer, time.Until(e.Next), tickDue0+i)
		}
	}
}

// watch stands for election and listens, in a goroutine.
func (p *poller) watch(ctx actor.Context) {
	d, self, epoch, c := p.d, ctx.Self(), p.epoch, p.ctx
	d.spawn(self, func() {
		defer func() { // also after a panic
			if c.Err() == nil {
				d.root().Send(self, watchEnded{epoch: epoch, wait: d.backoff("watch", 1)})
			}
		}()
		err := d.sched.Watch(c, d.identity, func(e sched.Event) {
			d.root().Send(self, watched{epoch: epoch, event: e})
		})
		if c.Err() == nil && redisconn.Classify(err) == redisconn.Command {
			d.outage.failed(pollerPart+"/watch", err) // an outage shows in the looks
		}
	})
}
