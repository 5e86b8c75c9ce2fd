package actors

import (
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/joblog"
	"github.com/troupehq/troupe/retry"
)

// move is what the decision asks of the fetcher.
func (e *execution) move(dec retry.Decision) fetch.Move {
	m := fetch.Move{Unit: e.w.unit, Score: dec.Score, Payload: dec.Payload}
	switch dec.Action {
	case retry.Retry:
		m.To = fetch.ToRetry
	case retry.Dead:
		m.To = fetch.ToDead
		m.Trim = fetch.Trim{Before: dec.TrimBefore, Max: dec.TrimMax}
	case retry.Park:
		m.To = fetch.ToSchedule
	case retry.Drop: // an ack, and no move
	}
	return m
}

// settle writes the decision; false when it did not come into Redis by our hand.
func (e *execution) settle(dec retry.Decision) bool {
	if dec.Action == retry.Drop {
		e.c.settler.ack(e.w)
		return true
	}
	return e.await(e.move(dec))
}

// store writes the decision and tells of it once it is in Redis. The slot does
// not wait for that, unless its job has crashed or too many are on their way.
func (e *execution) store(dec retry.Decision) {
	if dec.Action != retry.Drop && e.crash == nil {
		m := &asyncMove{pendingMove: pendingMove{w: e.w, move: e.move(dec)}, e: e, action: dec.Action, wait: dec.Wait}
		m.then = m
		if e.c.settler.submitAsync(&m.pendingMove) {
			return
		}
	}
	if e.settle(dec) {
		e.tell(dec.Action, dec.Score, dec.Wait)
	}
}

// asyncMove is a move that the settler carries while the slot goes on, and what is to be told
// when it is over.
type asyncMove struct {
	pendingMove
	e      *execution
	action retry.Action
	wait   float64
}

// over tells of the end.
func (m *asyncMove) over() {
	e := m.e
	defer func() { // a hook of the user's logger, say
		if v := recover(); v != nil {
			e.c.env.System.Panicked(e.c.processorPath(e.k.s.index), v)
		}
	}()
	if e.stored(&m.pendingMove) {
		e.tell(m.action, m.move.Score, m.wait)
	}
}

// await sees m into Redis; false when that was not our hand.
func (e *execution) await(m fetch.Move) bool {
	c := e.c
	pm := &pendingMove{w: e.w, move: m, done: make(chan struct{}), parked: make(chan struct{})}
	c.settler.submit(pm)
	select {
	case <-pm.done:
	case <-pm.parked:
		// Redis refuses this very move: other jobs need not wait for it. How many
		// may be held back like this is bounded.
		if c.heldBack.Add(1) <= int64(heldBackFactor*len(c.slots)) {
			e.free()
		}
		<-pm.done
		c.heldBack.Add(-1)
	}
	return e.stored(pm)
}

// stored tells whether a move that is over came into Redis by our hand.
func (e *execution) stored(pm *pendingMove) bool {
	if pm.err == nil && pm.result == fetch.Moved {
		return true
	}
	line := e.line(zerolog.ErrorLevel, "unsettled")
	if pm.err != nil {
		line = line.AnErr("settle_error", pm.err)
	}
	joblog.Err(line, e.err).Msg("the outcome of a job could not be stored")
	return false
}

// heldBackFactor times the concurrency is how many failed jobs may wait without
// a slot for a key that refuses them.
const heldBackFactor = 10
