package run

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/work"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
)

// This file is about the question that a job asks its limits. Jobs that a call has brought ask ahead of their runs, all in one
// call: while a limit is far from being reached no run waits for an answer of its own.

const (
	// vainMost is after how many refusals in a row no job asks ahead for vainPause.
	vainMost  = 64
	vainPause = 100 * time.Millisecond
)

// admission is what a job asks its limits, by its run or ahead of it.
type admission struct {
	rules   *job.Rules // nil: none is asked any more, the job goes back
	move    *work.Move
	at      time.Time
	payload *troupe.Payload // of one that asked ahead
}

var closed = &admission{}

func newAdmission(w *work.Item, rules *job.Rules) *admission {
	move := work.NewMove(w, fetch.Move{To: fetch.ToStay, Stay: &fetch.Stay{}, Effects: &fetch.Effects{Rules: rules}})
	return &admission{rules: rules, move: move, at: time.Now()}
}

// answer waits for it.
func (q *admission) answer() *work.Move {
	<-q.move.Done
	return q.move
}

// refused tells whether it was asked ahead, and is to be asked again.
func (q *admission) refused(v *Env) bool {
	if q.rules == nil || !q.rules.Ahead {
		return false
	}
	again := q.answer().Stay.Again
	v.vain.note(again)
	return again
}

// vain is about refusals of questions that were asked ahead. The zero value has none.
type vain struct{ inARow, until atomic.Int64 }

// note notes an answer.
func (v *vain) note(refused bool) {
	if !refused {
		v.inARow.Store(0)
	} else if v.inARow.Add(1) >= vainMost {
		v.inARow.Store(0)
		v.until.Store(time.Now().Add(vainPause).UnixNano())
	}
}

// AskAhead asks the limits of jobs that have come together and wait for workers.
func (v *Env) AskAhead(items []*work.Item, now time.Time) {
	if !v.Limited || len(items) < 2 || now.UnixNano() < v.vain.until.Load() {
		return
	}
	var moves []*work.Move
	for _, w := range items {
		if q := w.Job.(*Run).askAhead(v, now); q != nil { //nolint:forcetypeassert // Items made it
			moves = append(moves, q.move)
		}
	}
	if len(moves) > 0 {
		v.Settler.Submit(moves...)
	}
}

// askAhead makes the question of a job ahead of its run; nil if that asks by itself: where a limit has a function of the
// user's, which may block or panic.
func (r *Run) askAhead(v *Env, now time.Time) *admission {
	p, err := r.parse()
	if err != nil {
		return nil
	}
	h := v.Classes[p.HandlerClass()]
	all := v.limits(h, r.w.Unit.Queue)
	if h == nil || len(all) == 0 || slices.ContainsFunc(all, func(l *troupe.Limit) bool { return l.Key != nil }) {
		return nil
	}
	rules, err := v.rulesOf(p, r.w.Unit.Queue, all, now)
	if err != nil {
		return nil
	}
	rules.Ahead = true
	q := newAdmission(r.w, rules)
	q.payload = p
	if r.asked.CompareAndSwap(nil, q) {
		return q
	}
	return nil
}

// rulesOf are the rules of a job.
func (v *Env) rulesOf(p *troupe.Payload, queue string, all []*troupe.Limit, now time.Time) (*job.Rules, error) {
	rules, err := job.RulesOf(p, keys.LimitBase(queue, v.Cluster), all...)
	if err != nil {
		return nil, err
	}
	age, ok := p.Time("enqueued_at")
	if !ok {
		age = now
	}
	rules.Age, rules.Lease = float64(age.UnixMicro())/1e6, v.SlotLife
	return rules, nil
}

// limits are those of a class, which may be nil, and of a queue; nil without any.
func (v *Env) limits(h *Class, queue string) (all []*troupe.Limit) {
	if h != nil {
		for i := range h.options.Limits {
			all = append(all, &h.options.Limits[i])
		}
	}
	of := v.QueueLimits[queue]
	for i := range of {
		all = append(all, &of[i])
	}
	return all
}

// leaves are the limits that the job leaves at its end; nil if none can have let it in.
func (r *Run) leaves() *job.Rules {
	if r.own != nil {
		if rules := r.own.rules.Load(); rules != nil {
			return rules
		}
	}
	if q := r.asked.Load(); q != nil && q.rules != nil && q.rules.Ahead {
		return q.rules
	}
	return nil
}

// GivenBack are the effects of a move of the job back to its queue, which no run has begun: it leaves what has let it in ahead.
func (r *Run) GivenBack() *fetch.Effects {
	if q := r.asked.Swap(closed); q != nil && q.rules != nil {
		return &fetch.Effects{Rules: q.rules}
	}
	return nil
}
