package run

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actors/internal/retry"
	"github.com/troupehq/troupe/actors/internal/work"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/logs"
)

// move is what the decision asks of the fetcher.
func (r *Run) move(dec retry.Decision) fetch.Move {
	m := fetch.Move{Unit: r.w.Unit, Queue: dec.Queue, Score: dec.Score, Payload: dec.Payload, Trim: dec.Trim}
	m.To, _ = dec.Outcome.To()
	due := time.UnixMicro(int64(dec.Score * 1e6))
	end, how := job.BatchWait, ""
	if m.To == fetch.ToRetry {
		end = job.BatchRan
	}
	if m.To == fetch.ToDead { // any other goes on
		end, how = job.BatchDied, job.EndedDead
	}
	m.Effects = r.effects(nil, end, how, due)
	return m
}

// settle writes the decision; false when it did not come into Redis by our hand.
func (r *Run) settle(dec retry.Decision) bool {
	if dec.Outcome == retry.Drop {
		if effects := r.effects(nil, job.BatchDied, job.Dropped.String(), r.ended); effects != nil {
			return r.await(fetch.Move{Unit: r.w.Unit, To: fetch.ToNone, Effects: effects})
		}
		r.env.Settler.Ack(r.w)
		r.handed = true
		return true
	}
	return r.await(r.move(dec))
}

// store writes the decision and tells of it once it is in Redis. The slot does
// not wait for that, unless its job has crashed or too many are on their way.
func (r *Run) store(dec retry.Decision) {
	if dec.Outcome != retry.Drop {
		r.submit(r.move(dec), func() { r.tell(dec) })
	} else if r.settle(dec) {
		r.tell(dec)
	}
}

// Drop deletes the job of w, which no run has begun and whose outcome is the caller's, and frees the lock of a
// unique one. It tells whether Redis has confirmed that when ctx ends.
func (v *Env) Drop(ctx context.Context, w *work.Item) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(v.Settling, cancel)()
	r := w.Job.(*Run) //nolint:forcetypeassert // Items made it
	r.env = v
	if p, err := r.parse(); err == nil && job.HasOwn(w.Unit.Payload) {
		r.payload, r.own, r.jid = p, new(own), p.JID()
		r.locked()
		r.batched()
	}
	effects := r.effects(nil, job.BatchDone, job.EndedDeleted, time.Time{})
	if effects == nil {
		v.Settler.Ack(w)
		v.Changes.Await(ctx, w.Gone)
		return w.Gone() && len(v.Ledger.Ours([]*work.Item{w})) > 0
	}
	move := work.NewMove(w, fetch.Move{To: fetch.ToNone, Effects: effects})
	v.Settler.Submit(move)
	select {
	case <-move.Done:
		return move.Stored()
	case <-ctx.Done():
		return false
	}
}

// submit writes a move and calls tell once it is in Redis, as store does.
func (r *Run) submit(m fetch.Move, tell func()) {
	if r.crash == nil && (m.Effects == nil || !m.Effects.Rules.TellsFailure()) { // its worker takes no other job before the breaker knows
		move := &work.Move{Item: r.w, Move: m}
		move.Then = func() { r.told(move, tell) }
		if r.env.Settler.SubmitAsync(move) {
			r.handed = true
			return
		}
	}
	if r.await(m) {
		tell()
	}
}

// told calls tell when a move is over that the run did not wait for.
func (r *Run) told(m *work.Move, tell func()) {
	defer func() { // a hook of the user's logger, say
		if v := recover(); v != nil {
			r.env.System.Panicked(r.slot.Path(), v)
		}
	}()
	if r.stored(m) {
		tell()
	}
}

// await sees m into Redis; false when that was not our hand.
func (r *Run) await(m fetch.Move) bool {
	move := work.NewMove(r.w, m)
	r.env.Settler.Submit(move)
	r.handed = true
	r.awaitDone(move)
	return r.stored(move)
}

// awaitDone waits for the end of a move of a run that has ended: one that begins or goes on needs its slot.
func (r *Run) awaitDone(move *work.Move) {
	select {
	case <-move.Done:
	case <-move.Refused:
		// Redis refuses this very move: other jobs need not wait for it. How many
		// may be held back like this is bounded.
		if r.env.heldBack.Add(1) <= r.env.MaxHeldBack() {
			r.free()
		}
		<-move.Done
		r.env.heldBack.Add(-1)
	}
}

// stored tells whether a move that is over came into Redis by our hand.
func (r *Run) stored(m *work.Move) bool {
	if m.Stored() {
		r.tellBreakers(m.Effects)
		return true
	}
	line := r.line(zerolog.ErrorLevel, "unsettled")
	if m.Err != nil {
		line = line.AnErr("settle_error", m.Err)
	}
	logs.Err(line, r.err).Msg("the outcome of a job could not be stored")
	return false
}
