package actors

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
)

// poller moves due members of the retry and schedule sets into their queues.
// The two sets are served independently, each by at most one goroutine, batch
// after batch. Every process does so at Sidekiq's interval; the leader of the
// fleet also when something is due.
type poller struct {
	d       *Daemon
	epoch   uint64
	cancel  context.CancelFunc
	ctx     context.Context
	sets    [2]pollSet
	timer   *time.Timer // the interval poll
	polls   int
	cleaned time.Time // the last look for dead processes
}

// pollerPart is the part that Redis serves or does not; each set is one of its own.
const pollerPart = launcherName + "/poller"

// Of so many interval polls one takes dead processes off the list.
const thorough = 12

type pollSet struct {
	set   string
	busy  bool
	again bool        // something became due while busy
	timer *time.Timer // another try after one that failed
}

// kinds of tick.
const (
	tickInterval = iota
	tickRetry0
	tickRetry1
	tickLead
)

type promoted struct {
	epoch uint64
	i     int
	more  bool
	ok    bool
}

type polled struct {
	epoch uint64
	wait  time.Duration
}

type led struct {
	epoch uint64
	set   string
}

type leadEnded struct {
	epoch uint64
	wait  time.Duration
}

func (p *poller) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		p.epoch = p.d.env.System.NextEpoch()
		p.ctx, p.cancel = context.WithCancel(p.d.env.Settling) // a launcher that is blocked stops no child
		p.sets = [2]pollSet{{set: keys.Retry}, {set: keys.Schedule}}
		p.after(ctx, &p.timer, p.d.initialPollWait(), tickInterval)
		p.lead(ctx)
	case quiet:
		ctx.Stop(ctx.Self())
	case supervised.Wake:
		p.promoteAll(ctx)
	case tick:
		if m.epoch == p.epoch {
			p.tick(ctx, m.kind)
		}
	case polled:
		if m.epoch == p.epoch {
			p.after(ctx, &p.timer, m.wait, tickInterval)
			p.promoteAll(ctx)
		}
	case promoted:
		if m.epoch == p.epoch {
			p.promoted(ctx, m)
		}
	case led:
		if m.epoch == p.epoch {
			p.led(ctx, m.set)
		}
	case leadEnded:
		if m.epoch == p.epoch {
			p.after(ctx, nil, m.wait, tickLead)
			p.promoteAll(ctx) // is Redis away? then its return is noticed by the next try
		}
	case *actor.Restarting, *actor.Stopping:
		p.cancel()
		p.d.env.Outage.Leave(pollerPart, pollerPart+"/"+keys.Retry, pollerPart+"/"+keys.Schedule)
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
	nt := time.AfterFunc(max(0, wait)+time.Duration(kind), func() { d.env.System.Root().Send(self, m) })
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
	case tickRetry0, tickRetry1:
		p.sets[kind-tickRetry0].timer = nil
		p.promote(ctx, kind-tickRetry0)
	case tickLead:
		p.lead(ctx)
	}
}

// poll counts the processes that share the work, in a goroutine; polled follows.
func (p *poller) poll(ctx actor.Context) {
	clean := p.polls%thorough == 0 || time.Since(p.cleaned) > time.Minute
	if clean {
		p.cleaned = time.Now()
	}
	p.polls++
	d, self, c := p.d, ctx.Self(), p.ctx
	m := polled{epoch: p.epoch, wait: d.pollWait(0)}
	d.env.System.Spawn(pollerPart, func() {
		defer func() { d.env.System.Root().Send(self, m) }() // also after a panic, if the strategy resumes us
		if clean {
			d.cleanUp(c)
		}
		m.wait = d.pollWait(d.processes(c))
	})
}

// promoteAll starts a batch of each set.
func (p *poller) promoteAll(ctx actor.Context) {
	for i := range p.sets {
		p.promote(ctx, i)
	}
}

// promote starts a batch of set i unless one is under way.
func (p *poller) promote(ctx actor.Context, i int) {
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
	d.env.System.Spawn(pollerPart, func() {
		m := promoted{epoch: epoch, i: i}
		defer func() { d.env.System.Root().Send(self, m) }()
		got, ok := d.promote(c, set)
		m.more, m.ok = got.More, ok
	})
}

func (p *poller) promoted(ctx actor.Context, m promoted) {
	s := &p.sets[m.i]
	s.busy = false
	switch {
	case m.ok && (m.more || s.again):
		p.promote(ctx, m.i)
	case !m.ok && p.ctx.Err() == nil: // as a fetch: once a second until Redis is back
		p.after(ctx, &s.timer, time.Second, tickRetry0+m.i)
	}
}

// led promotes what the leader has found to be due. What has just failed waits for
// its next try.
func (p *poller) led(ctx actor.Context, set string) {
	for i := range p.sets {
		if s := &p.sets[i]; s.set == set && s.timer == nil {
			p.promote(ctx, i)
		}
	}
}

// lead waits for the leader's lock and leads, in a goroutine.
func (p *poller) lead(ctx actor.Context) {
	d, self, epoch, c := p.d, ctx.Self(), p.epoch, p.ctx
	d.env.System.Spawn(pollerPart, func() {
		defer func() { // also after a panic
			if c.Err() == nil {
				d.env.System.Root().Send(self, leadEnded{epoch: epoch, wait: d.env.Backoff("lead", 1)})
			}
		}()
		err := d.sched.Lead(c, func(set string) {
			d.env.System.Root().Send(self, led{epoch: epoch, set: set})
		})
		if c.Err() == nil && redisconn.Classify(err) == redisconn.Command {
			d.env.Outage.Failed(pollerPart+"/lead", err) // an outage shows in the promotions
		}
	})
}
