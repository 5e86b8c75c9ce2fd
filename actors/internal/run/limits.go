package run

import (
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/words"
)

// This file is about jobs under limits: they ask before they start, and leave with the move that ends their run.

// requeuedSlot is how long the slot of a job lives that goes back to its queue at the deadline of a stop, for the process that
// takes it next.
const requeuedSlot = 10 * time.Second

// admitted asks the limits of the job, unless that was done ahead; false if it is not to start.
func (r *Run) admitted() bool {
	if r.own.limits == nil {
		return true
	}
	q := r.asked.Load()
	if q == nil || q.refused(r.env) {
		rules, err := r.rules()
		if err != nil {
			r.err = err
			return false
		}
		own := newAdmission(r.w, rules)
		if !r.asked.CompareAndSwap(q, own) { // it was asked ahead meanwhile
			return r.admitted()
		}
		q = own
		r.env.Settler.Submit(q.move)
	}
	move := q.answer()
	for move.Err == nil && move.Stay.Done && age(q.at) > r.env.MaxAge { // it may be another process's job by now
		rules := *q.rules
		rules.Ahead = false
		q = newAdmission(r.w, &rules)
		r.asked.Store(q)
		r.env.Settler.Submit(q.move)
		move = q.answer()
	}
	switch {
	case move.Err != nil || move.Result == fetch.NotMine:
		r.payload = nil
	case move.Stay.Done:
		r.own.rules.Store(q.rules)
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
	return r.env.rulesOf(r.payload, r.w.Unit.Queue, r.own.limits, r.started)
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
		r.env.Settler.Submit(newAdmission(r.w, rules).move)
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
