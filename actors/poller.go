package actors

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/actors/internal/env"
	"github.com/troupehq/troupe/actors/internal/sched"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/jitter"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
)

// pollerPart is the path of the poller, and the part that Redis serves or does not; each
// set is one of its own.
const pollerPart = launcherName + "/poller"

// Of so many interval polls one takes dead processes off the list.
const thorough = 12

// poller moves due members of the retry and schedule sets into their queues.
// The two sets are served independently, each by one loop, batch after batch. Every
// process does so at Sidekiq's interval, but the leader of the fleet when something is due.
type poller struct {
	*supervised.Loops
	env      *env.Env
	sets     []*dueSet
	periodic *ticking      // nil without a capsule of Sidekiq's wire
	limits   int           // the loop of letIn; 0 without such a capsule
	interval time.Duration // Config.PollInterval
	each     time.Duration // Config.PollIntervalPerProcess

	mu     sync.Mutex
	resign map[*sched.Scheduler]context.CancelFunc // ends its Lead
}

// dueSet is a set of a system, and the loop that serves it.
type dueSet struct {
	sched   *sched.Scheduler
	set     string // "retry" or "schedule"
	key     string // what the system calls it
	loop    int
	failing atomic.Bool
}

func newPoller(d *Daemon) *poller {
	e, cfg := d.env, &d.cfg
	p := &poller{env: e, interval: cfg.PollInterval, each: cfg.PollIntervalPerProcess, resign: map[*sched.Scheduler]context.CancelFunc{}}
	loops := []func(*supervised.Loop){p.poll}
	for _, s := range d.systems {
		if s.sched == nil {
			continue
		}
		var own []*dueSet
		loops = append(loops, func(l *supervised.Loop) { p.lead(l, s.sched, own) })
		for _, set := range []string{keys.Retry, keys.Schedule} {
			d := &dueSet{sched: s.sched, set: set, key: s.key(set), loop: len(loops)}
			loops = append(loops, func(l *supervised.Loop) { p.serve(l, d) })
			own = append(own, d)
		}
		if s.of == nil {
			loops = append(loops, func(l *supervised.Loop) { p.note(l, s.sched) }, func(l *supervised.Loop) { p.freeOrphans(l, s) })
			p.limits = len(loops)
			loops = append(loops, func(l *supervised.Loop) { p.letIn(l, s) })
			p.periodic = newTicking(d, s)
			if p.periodic.loop = len(loops); !cfg.PeriodicElsewhere {
				loops = append(loops, p.periodic.tick)
			}
			if cfg.Periodic != nil {
				loops = append(loops, p.periodic.keep)
			}
		}
		p.sets = append(p.sets, own...)
	}
	p.Loops = supervised.NewLoops(e.Settling, e.System, pollerPart, loops...)
	return p
}

// wake has sets looked at.
func (p *poller) wake(sets []*dueSet) {
	for _, d := range sets {
		p.Wake(d.loop)
	}
}

func (p *poller) Receive(ctx actor.Context) {
	p.Loops.Receive(ctx)
	switch ctx.Message().(type) {
	case quiet:
		ctx.Stop(ctx.Self())
	case *actor.Restarting, *actor.Stopping:
		p.env.Outage.Leave(pollerPart)
		p.env.Outage.Leave(periodicPart)
		p.env.Outage.Leave(limitsPart)
		p.env.Outage.Leave(periodicPart + "/entries")
		for _, d := range p.sets {
			p.env.Outage.Leave(d.part())
		}
	}
}

// part is what an outage shows of the set.
func (d *dueSet) part() string { return pollerPart + "/" + d.key }

// poll has all sets looked at, now and then.
func (p *poller) poll(l *supervised.Loop) {
	random := func() *rand.Rand { return jitter.Rand(p.env.Identity, "poll") }
	var cleaned time.Time // the last look for dead processes
	n, sure := 0, false   // processes; whether the last calls were answered
	wait := jitter.FirstPoll(p.interval, random())
	for polls := 0; l.Pause(wait); polls++ {
		if polls%thorough == 0 || time.Since(cleaned) > time.Minute {
			cleaned = time.Now()
			sure = p.cleanUp(l.Context) && sure
		}
		unseen := p.unseen()
		if len(unseen) > 0 || !sure {
			n, sure = p.processes(l.Context)
		}
		wait = jitter.PollInterval(max(n, 1), p.interval, p.each, random())
		p.wake(unseen)
	}
}

// unseen are the sets in which this process has to look for what is due: those that it does not lead.
// On a cluster it looks in all, since that also finds the moves between slots that were broken off.
func (p *poller) unseen() (all []*dueSet) {
	cluster := redisconn.OnCluster(p.env.Redis)
	for _, d := range p.sets {
		if cluster || !d.sched.Leads(d.set) {
			all = append(all, d)
		}
	}
	return all
}

// Paused is called when the actor is held or suspended: it cannot lead then, and somebody
// else is to.
func (p *poller) Paused() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, end := range p.resign {
		end()
	}
}

// term is the context of a Lead; it ends when the loop is to, and when the actor is paused.
func (p *poller) term(l *supervised.Loop, s *sched.Scheduler) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancel(l.Context)
	p.mu.Lock()
	p.resign[s] = end
	p.mu.Unlock()
	if p.env.System.Mailbox(pollerPart).Keeps() { // since the loop was told to go on
		end()
	}
	return ctx, end
}

// lead waits for the leader's lock and leads. What the leader finds to be due is promoted;
// what has just failed waits for its next try.
func (p *poller) lead(l *supervised.Loop, s *sched.Scheduler, sets []*dueSet) {
	for {
		term, end := p.term(l, s)
		err := s.Lead(term, func(set string) {
			if set == sched.Periodic && p.periodic != nil && p.periodic.s.sched == s && !p.periodic.d.cfg.PeriodicElsewhere {
				p.periodic.ticker.Stale()
				p.Wake(p.periodic.loop)
			}
			if set == sched.Limits && p.limits > 0 && p.periodic.s.sched == s {
				p.Wake(p.limits)
			}
			for _, d := range sets {
				if d.set == set && !d.failing.Load() {
					p.Wake(d.loop)
				}
			}
		})
		over := term.Err() != nil
		end()
		if !over && redisconn.Classify(err) == redisconn.Command {
			p.env.Outage.Failed(pollerPart+"/lead", err) // an outage shows in the promotions
		}
		p.wake(sets) // is Redis away? then its return is noticed by the next try
		if !l.Pause(p.env.Backoff("lead", 1)) {
			return
		}
	}
}

// note notes once a minute what waits in the queues, while this process leads. Only charts need it.
func (p *poller) note(l *supervised.Loop, s *sched.Scheduler) {
	for l.Pause(beat.DepthsEvery) {
		if !s.Leads(keys.Retry) {
			continue
		}
		call, cancel := env.Within(l.Context)
		if err := beat.NoteDepths(call, p.env.Redis, time.Now()); err != nil {
			p.env.Log.Debug().Err(err).Str("actor", pollerPart).Msg("what waits in the queues was not noted")
		}
		cancel()
	}
}

// serve promotes what is due in a set whenever it is woken, and tries once a second after
// a failure, as a fetch does.
func (p *poller) serve(l *supervised.Loop, d *dueSet) {
	const never = time.Duration(-1)
	for wait := never; l.Sleep(wait); {
		got, ok := p.promote(l.Context, d)
		d.failing.Store(!ok)
		switch {
		case !ok:
			wait = time.Second
		case got.More:
			wait = 0
		default:
			wait = never
		}
	}
}

// cleanUp takes dead processes off the list, if nobody else has lately. It tells whether it could.
func (p *poller) cleanUp(ctx context.Context) bool {
	call, cancel := env.Within(ctx)
	defer cancel()
	_, err := beat.Cleanup(call, p.env.Redis)
	if err != nil && ctx.Err() == nil {
		p.env.Outage.Failed(pollerPart, err)
	}
	return err == nil
}

// processes counts those of the fleet for the interval of the polls; 0 and false if it cannot:
// an outage shows in the promotions, and a user may lack the right.
func (p *poller) processes(ctx context.Context) (int, bool) {
	if len(p.sets) == 0 {
		return 0, true
	}
	call, cancel := env.Within(ctx)
	defer cancel()
	n, err := p.sets[0].sched.Processes(call)
	if err == nil {
		p.env.Outage.OK(pollerPart)
	}
	return n, err == nil
}

// promote moves one batch of due members of a set.
func (p *poller) promote(ctx context.Context, d *dueSet) (sched.Promoted, bool) {
	got, err := d.sched.Promote(ctx, d.set)
	// A part of its own for each set: where Redis only refuses writes, the look at
	// an empty set succeeds, and must not ring for the other one again and again.
	part := d.part()
	if err != nil {
		if ctx.Err() == nil {
			p.env.Outage.Failed(part, err)
		}
		return got, false
	}
	p.env.Outage.OK(part)
	if got.Dead > 0 || got.Dropped > 0 {
		p.env.Log.Warn().Str("actor", part).Str("set", d.key).Int("dead", got.Dead).Int("dropped", got.Dropped).
			Msg("members of the set were no jobs (moved to the dead set as they are), or stopped by client middleware")
	}
	return got, true
}
