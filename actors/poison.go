package actors

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/cut"
	"github.com/troupehq/troupe/internal/joblog"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/recovery"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/retry"
)

// Poison says what is done about jobs that take their process down. The zero
// value is the default of every field.
type Poison struct {
	// Recoveries within Within after which a job is dead, if it was in progress
	// as a suspect the last time; 0 means 3, -1 never: nothing is counted.
	Recoveries int
	// Within is how long a recovery counts; 0 means 72 h.
	Within time.Duration
	// Suspect is the number of recoveries from which on a job is a suspect: a
	// process runs one of them at a time. 0 means one less than Recoveries, at
	// least 1; -1 sets nobody apart: all are dead that reach Recoveries.
	Suspect int
}

func (p Poison) withDefaults() Poison {
	def(&p.Recoveries, 3)
	def(&p.Within, limits.Window)
	def(&p.Suspect, max(1, p.Recoveries-1))
	return p
}

// Limits are the values that count, the defaults filled in; -1 is none.
func (p Poison) Limits() (recoveries int, within time.Duration, suspect int) {
	p = p.withDefaults()
	return p.Recoveries, p.Within, p.Suspect
}

// poisonPolicy decides where what dead processes had in progress goes.
type poisonPolicy struct{ d *Daemon }

// Key counts by jid; what has none, by its bytes.
func (poisonPolicy) Key(payload []byte) string {
	if p, err := troupe.ParsePayload(payload); err == nil && p.JID() != "" {
		return p.JID()
	}
	sum := sha256.Sum256(payload)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Decide applies the limits first, then the class's policy.
func (j poisonPolicy) Decide(o fetch.Orphan) fetch.Decision {
	limit, times := j.d.cfg.Poison, len(o.Recoveries)
	p, err := troupe.ParsePayload(o.Unit.Payload)
	if err != nil {
		p = nil
	}
	counts := limit.Recoveries > 0
	switch {
	case counts && times >= limit.Recoveries && (o.Unit.Suspect || limit.Suspect < 0):
		return j.toDead(o, p, true)
	case counts && limit.Suspect > 0 && times >= limit.Suspect:
		return fetch.Decision{Suspect: true}
	}
	route := j.route(p, times)
	last := o.Recoveries[times-1]
	in := recoveredOf(o, p)
	switch {
	case route.Dead:
		return j.toDead(o, p, false)
	case route.Delay > 0:
		return fetch.Decision{
			To: fetch.ToSchedule, Score: scores.Of(last.At.Add(route.Delay)),
			Payload: j.d.policy.Stamp(last.At, in, o.Unit.Queue), Forget: !counts,
		}
	case route.Queue != "" && route.Queue != o.Unit.Queue:
		return fetch.Decision{Queue: route.Queue, Payload: j.d.policy.Stamp(last.At, in, route.Queue), Forget: !counts}
	}
	return fetch.Decision{Forget: !counts}
}

func recoveredOf(o fetch.Orphan, p *troupe.Payload) retry.Recovered {
	return retry.Recovered{
		Raw: o.Unit.Payload, Payload: p, Queue: o.Unit.Queue, Times: len(o.Recoveries),
		Process: o.Recoveries[len(o.Recoveries)-1].Process, Evidence: o.Recoveries,
	}
}

func (j poisonPolicy) toDead(o fetch.Orphan, p *troupe.Payload, poison bool) fetch.Decision {
	last := o.Recoveries[len(o.Recoveries)-1]
	why := &troupe.RecoveredError{
		Times: len(o.Recoveries), Within: j.d.cfg.Poison.Within, Process: last.Process, Cause: last.Cause, Poison: poison,
	}
	dec := j.d.policy.Dead(last.At, recoveredOf(o, p), why)
	return fetch.Decision{
		To: fetch.ToDead, Score: dec.Score, Payload: dec.Payload, Forget: true, Why: why,
		Trim: fetch.Trim{Before: dec.TrimBefore, Max: dec.TrimMax},
	}
}

// route asks the policies: the daemon's if there is one, else the class's.
func (j poisonPolicy) route(p *troupe.Payload, times int) troupe.Recovery {
	if p == nil {
		return troupe.Recovery{}
	}
	if j.d.cfg.Recovery == nil {
		e, _ := j.d.cfg.Registry.Lookup(p.HandlerClass())
		return e.Options.Recovery
	}
	to, err := j.d.recovery.ask(p, times)
	if err != nil {
		joblog.Err(j.d.log.Error().Str("actor", launcherName+"/rescuer").Str("jid", cut.Text(p.JID())).
			Str("class", cut.Text(p.DisplayClass())), err).
			Msg("the recovery policy failed: the job goes back to its queue")
	}
	return to
}

// tellRecovered tells the world what became of the jobs of a round that did not simply
// go back.
func (d *Daemon) tellRecovered(got fetch.Rescued) {
	var dead []death
	defer func() { d.deaths.add(dead) }() // whatever a hook of the user's logger does
	var all []recovered
	for _, from := range got.Details {
		for _, j := range from.Rerouted {
			r := recoveredJob(j)
			all = append(all, r)
			switch {
			case j.Decision.To == fetch.ToDead:
				d.poisoned.Add(1)
				if r.isJob { // else no job has died
					dead = append(dead, death{j.Decision.Payload, j.Decision.Why})
				}
			case j.Decision.Suspect:
				d.suspected.Add(1)
			}
			if d.events.wanted.Load() {
				d.events.publish(r.event())
			}
		}
	}
	for _, r := range all {
		r.log(&d.log)
	}
}

// recovered is a recovered job that did not simply go back.
type recovered struct {
	fetch.Rerouted
	isJob bool
	ref   JobRef
	to    string // name of a queue, or schedule
}

func recoveredJob(j fetch.Rerouted) recovered {
	r := recovered{Rerouted: j, ref: JobRef{Queue: j.Orphan.Unit.Queue}, to: j.Decision.Queue}
	if p, err := troupe.ParsePayload(j.Orphan.Unit.Payload); err == nil {
		r.isJob, r.ref.JID, r.ref.Class = true, p.JID(), p.DisplayClass()
	}
	if j.Decision.To == fetch.ToSchedule {
		r.to = "schedule"
	}
	return r
}

func (r *recovered) event() Event {
	now := time.Now()
	if r.Decision.To == fetch.ToDead {
		return JobPoisoned{At: now, Job: r.ref, Recoveries: r.Orphan.Recoveries, Err: r.Decision.Why}
	}
	return JobRerouted{At: now, Job: r.ref, Recoveries: r.Orphan.Recoveries, To: r.to, Suspect: r.Decision.Suspect}
}

func (r *recovered) log(log *zerolog.Logger) {
	line := log.Warn().Str("actor", launcherName+"/rescuer").Str("jid", cut.Text(r.ref.JID)).Str("class", cut.Text(r.ref.Class)).
		Str("queue", cut.Text(r.ref.Queue)).Str("from", r.Orphan.From).Int("recoveries", len(r.Orphan.Recoveries))
	switch {
	case r.Decision.To == fetch.ToDead:
		joblog.Err(line.Str("error_class", troupe.ErrorClass(r.Decision.Why)), r.Decision.Why).Msg("a recovered job was moved to the dead set")
	case r.Decision.Suspect:
		line.Msg("a job is suspected of killing its process: it runs apart from other suspects")
	default:
		line.Str("to", cut.Text(r.to)).Msg("a recovered job was sent elsewhere")
	}
}

// recoveryTime is how long Config.Recovery may take.
const recoveryTime = time.Second

var errRecoveryHangs = errors.New("an earlier call has not returned, it is not asked meanwhile")

// recoveryPolicy asks Config.Recovery, about one job at a time. A call that takes
// longer than recoveryTime decides nothing; until it has returned, nothing else is
// asked: one goroutine hangs, not one a job.
type recoveryPolicy struct {
	f func(*troupe.Payload, int) troupe.Recovery

	mu    sync.Mutex
	hangs <-chan error // what the call that was given up will have returned; nil if there is none
}

// ask returns what f says about p, or why it says nothing.
func (r *recoveryPolicy) ask(p *troupe.Payload, times int) (to troupe.Recovery, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hangs != nil && len(r.hangs) == 0 {
		return troupe.Recovery{}, errRecoveryHangs
	}
	r.hangs = nil
	var answer troupe.Recovery
	returned := supervised.Isolated(func() { answer = r.f(p.Clone(), times) })
	t := time.NewTimer(recoveryTime)
	defer t.Stop()
	select {
	case err = <-returned:
	case <-t.C:
		r.hangs = returned
		return troupe.Recovery{}, fmt.Errorf("no answer for %v", recoveryTime)
	}
	if err == nil {
		err = recovery.Check(answer.Queue, answer.Delay, answer.Dead)
	}
	if err != nil {
		return troupe.Recovery{}, err
	}
	return answer, nil
}
