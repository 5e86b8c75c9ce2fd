package actors

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/actors/internal/env"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/jitter"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/sched"
)

// pollerPart is the path of the poller, and the part that Redis serves or does not; each
// set is one of its own.
const pollerPart = launcherName + "/poller"

// Of so many interval polls one takes dead processes off the list.
const thorough = 12

// poller moves due members of the retry and schedule sets into their queues.
// The two sets are served independently, each by one loop, batch after batch. Every
// process does so at Sidekiq's interval; the leader of the fleet also when something is
// due.
type poller struct {
	*supervised.Loops
	env      *env.Env
	sched    *sched.Scheduler
	interval time.Duration  // Config.PollInterval
	each     time.Duration  // Config.PollIntervalPerProcess
	failing  [2]atomic.Bool // of pollSets
}

var pollSets = [2]string{keys.Retry, keys.Schedule}

// firstSet is the loop that serves the first of the pollSets; that of the second is next.
const firstSet = 2

func newPoller(e *env.Env, s *sched.Scheduler, cfg *Config) *poller {
	p := &poller{env: e, sched: s, interval: cfg.PollInterval, each: cfg.PollIntervalPerProcess}
	p.Loops = supervised.NewLoops(e.Settling, e.System, pollerPart, p.poll, p.lead,
		func(l *supervised.Loop) { p.serve(l, 0) }, func(l *supervised.Loop) { p.serve(l, 1) }) // from firstSet on
	return p
}

func (p *poller) Receive(ctx actor.Context) {
	p.Loops.Receive(ctx)
	switch ctx.Message().(type) {
	case quiet:
		ctx.Stop(ctx.Self())
	case *actor.Restarting, *actor.Stopping:
		p.env.Outage.Leave(pollerPart, pollerPart+"/"+keys.Retry, pollerPart+"/"+keys.Schedule)
	}
}

// poll has both sets looked at, now and then.
func (p *poller) poll(l *supervised.Loop) {
	random := func() *rand.Rand { return jitter.Rand(p.env.Identity, "poll") }
	var cleaned time.Time // the last look for dead processes
	wait := jitter.FirstPoll(p.interval, random())
	for polls := 0; l.Rest(wait); polls++ {
		if polls%thorough == 0 || time.Since(cleaned) > time.Minute {
			cleaned = time.Now()
			p.cleanUp(l.Context)
		}
		wait = jitter.PollInterval(max(p.processes(l.Context), 1), p.interval, p.each, random())
		p.Wake(firstSet, firstSet+1)
	}
}

// lead waits for the leader's lock and leads. What the leader finds to be due is promoted;
// what has just failed waits for its next try.
func (p *poller) lead(l *supervised.Loop) {
	for {
		err := p.sched.Lead(l.Context, func(set string) {
			for i := range pollSets {
				if pollSets[i] == set && !p.failing[i].Load() {
					p.Wake(firstSet + i)
				}
			}
		})
		if l.Context.Err() == nil && redisconn.Classify(err) == redisconn.Command {
			p.env.Outage.Failed(pollerPart+"/lead", err) // an outage shows in the promotions
		}
		p.Wake(firstSet, firstSet+1) // is Redis away? then its return is noticed by the next try
		if !l.Rest(p.env.Backoff("lead", 1)) {
			return
		}
	}
}

// serve promotes what is due in set i whenever it is woken, and tries once a second after
// a failure, as a fetch does.
func (p *poller) serve(l *supervised.Loop, i int) {
	const never = time.Duration(-1)
	for wait := never; l.Sleep(wait); {
		got, ok := p.promote(l.Context, pollSets[i])
		p.failing[i].Store(!ok)
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

// cleanUp takes dead processes off the list, if nobody else has lately.
func (p *poller) cleanUp(ctx context.Context) {
	call, cancel := env.Within(ctx)
	defer cancel()
	if _, err := beat.Cleanup(call, p.env.Redis); err != nil && ctx.Err() == nil {
		p.env.Outage.Failed(pollerPart, err)
	}
}

// processes counts those of the fleet for the interval of the polls; 0 if it cannot:
// an outage shows in the promotions, and a user may lack the right.
func (p *poller) processes(ctx context.Context) int {
	call, cancel := env.Within(ctx)
	defer cancel()
	n, err := p.sched.Processes(call)
	if err == nil {
		p.env.Outage.OK(pollerPart)
	}
	return n
}

// promote moves one batch of due members of set.
func (p *poller) promote(ctx context.Context, set string) (sched.Promoted, bool) {
	got, err := p.sched.Promote(ctx, set)
	// A part of its own for each set: where Redis only refuses writes, the look at
	// an empty set succeeds, and must not ring for the other one again and again.
	part := pollerPart + "/" + set
	if err != nil {
		if ctx.Err() == nil {
			p.env.Outage.Failed(part, err)
		}
		return got, false
	}
	p.env.Outage.OK(part)
	if got.Dead > 0 || got.Dropped > 0 {
		p.env.Log.Warn().Str("actor", part).Str("set", set).Int("dead", got.Dead).Int("dropped", got.Dropped).
			Msg("members of the set were no jobs (moved to the dead set as they are), or stopped by client middleware")
	}
	return got, true
}
