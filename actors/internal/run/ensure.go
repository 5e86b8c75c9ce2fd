package run

import (
	"runtime/debug"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/retry"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/actors/internal/work"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/scores"
)

// ensure ends a run that a panic with v has broken off, or a Goexit where v is nil, after the handler: in a
// rule of the wire, a hook of the user's or by a fault of ours. The processor crashes of a panic, and a
// job whose outcome has not come to the settler fails of it: else it would stay in its private
// place until the process ends.
func (r *Run) ensure(v any) {
	if v != nil {
		r.concluded = false
		r.env.System.Panicked(r.slot.Path(), v)
	}
	counted := r.mine
	if r.handed || !r.mine && !r.take() {
		return
	}
	r.ended = time.Now()
	r.elapsed = r.ended.Sub(r.started)
	r.err = &troupe.PanicError{Value: v, Goexit: v == nil, Stack: debug.Stack()}
	r.acked = false
	var dec retry.Decision
	err := supervised.Isolate(func() {
		if !counted {
			r.count(job.Panic, false)
		}
		dec = r.env.Policy.Decide(r.ended, r.env.Seed.Uint64(r.jid, r.ended), retry.Failure{Raw: r.w.Unit.Payload, FetchedFrom: r.w.Unit.Queue, Err: r.err})
	})
	if err != nil || dec.Outcome == retry.Drop { // nobody can say what becomes of it: it is kept as it was fetched
		dec = retry.Decision{Outcome: retry.Dead, Score: scores.Of(r.ended)}
	}
	move := work.NewMove(r.w, r.move(dec))
	r.env.Settler.Submit(move)
	r.handed = true
	r.env.System.Spawn(r.slot.Path(), func() {
		r.publish(r.failure())
		if <-move.Done; r.stored(move) {
			r.tell(dec)
		}
	})
}
