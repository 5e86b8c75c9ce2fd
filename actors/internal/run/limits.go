package run

import (
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/work"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/words"
)

// This file is about jobs under limits: they ask before they start, and leave with the move that ends their run.

// requeuedSlot is how long the slot of a job lives that goes back to its queue at the deadline of a stop, for the process that
// takes it next.
const requeuedSlot = 10 * time.Second

// limits are those of the job's class and queue; nil without any.
func (r *Run) limits() (all []*troupe.Limit) {
	if r.handler != nil {
		for i := range r.handler.options.Limits {
			all = append(all, &r.handler.options.Limits[i])
		}
	}
	if len(r.env.QueueLimits) > 0 {
		of := r.env.QueueLimits[r.w.Unit.Queue]
		for i := range of {
			all = append(all, &of[i])
		}
	}
	return all
}

// admitted asks the limits of the job; false if it is not to start.
func (r *Run) admitted() bool {
	if r.own.limits == nil {
		return true
	}
	rules, err := r.rules()
	if err != nil {
		r.err = err
		return false
	}
	asked := time.Now()
	move := r.ask(rules)
	<-move.Done
	for ; move.Err == nil && move.Stay.Done && age(asked) > r.env.MaxAge; <-move.Done { // it may be another process's job by now
		asked = time.Now()
		move = r.ask(rules)
	}
	switch {
	case move.Err != nil || move.Result == fetch.NotMine:
		r.payload = nil
	case move.Stay.Done:
		r.own.rules.Store(rules)
		return true
	default:
		r.sent, r.own.holder = job.Held, move.Stay.Held
	}
	return false
}

// age is how long ago that was, by the clock that shows more time.
func age(of time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(of), now.Round(0).Sub(of.Round(0)))
}

// rules are those of the job. What the key of a limit panics with is the job's error.
func (r *Run) rules() (rules *job.Rules, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the key of a limit: %w", &troupe.PanicError{Value: v})
		}
	}()
	base := keys.LimitBase(r.w.Unit.Queue, r.env.Cluster)
	if rules, err = job.RulesOf(r.payload, base, r.own.limits...); err != nil {
		return nil, err
	}
	age, ok := r.payload.Time("enqueued_at")
	if !ok {
		age = r.started
	}
	rules.Age, rules.Lease = float64(age.UnixMicro())/1e6, r.env.SlotLife
	return rules, nil
}

// ask has the settler ask rules.
func (r *Run) ask(rules *job.Rules) *work.Move {
	move := work.NewMove(r.w, fetch.Move{To: fetch.ToStay, Stay: &fetch.Stay{}, Effects: &fetch.Effects{Rules: rules}})
	r.env.Settler.Submit(move)
	return move
}

// heldBy ends the run of a job that a limit holds: it is in Redis, and not in progress any more.
func (r *Run) heldBy() {
	r.w.Again.Store(true)
	r.handed = true
	r.env.Settler.Gone(r.w)
	r.env.OnHeld(r.own.holder)
	level, text := job.Held.Line()
	if line := r.line(zerolog.Level(level), job.Held.Logged()); line.Enabled() {
		line.Str("rule", words.Text(r.own.holder)).Msg(text)
	}
	r.publish(event.JobHeld{JobEvent: r.now(), Rule: r.own.holder})
}

// Rules are the limits that have let the job in, while it runs; nil if there are none. Safe for concurrent use.
func (r *Run) Rules() *job.Rules {
	if !r.began.Load() || r.own == nil || r.over.Load() {
		return nil
	}
	return r.own.rules.Load()
}

// Enter takes slots again that Redis has forgotten, if the job still runs and is ours.
func (r *Run) Enter(rules *job.Rules) {
	if r.Rules() != nil {
		r.ask(rules)
	}
}

// handSlots gives the slots of a run that is given up and goes on a name of their own: the job may run again beside it, if
// there is room. The beat renews them until the run ends.
func (r *Run) handSlots(end *Run) {
	rules := r.Rules()
	if rules == nil {
		return
	}
	of := *rules
	of.As, of.Keep = of.JID+"~"+r.w.Unit.Receipt, r.env.SlotLife
	if end.own == nil {
		end.own = new(own)
	}
	end.own.rules.Store(&of)
	r.own.rules.Store(&of)
}

// Requeued are the effects of a move of the job back to its queue at the deadline of a stop.
func (r *Run) Requeued() *fetch.Effects {
	rules := r.Rules()
	if rules == nil || rules.As != "" {
		return nil
	}
	of := *rules
	of.Keep = requeuedSlot
	return &fetch.Effects{Rules: &of}
}
