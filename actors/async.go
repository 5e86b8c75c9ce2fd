package actors

import (
	"slices"
	"sync/atomic"
	"time"
)

const (
	// asyncMax is how many moves may be on their way while their slots go on
	// with other jobs: as many as two calls to Redis carry.
	asyncMax = 1000
	// asyncBytes bounds their payloads.
	asyncBytes = 16 << 20
	// asyncDelay is how long they wait for company, unless there are
	// asyncBatch of them: a call with so many costs half as much a job as one
	// with twenty.
	asyncDelay = 5 * time.Millisecond
	asyncBatch = 128
)

// submitAsync hands a move over whose job's slot goes on at once: jobs that fail
// travel together however few slots there are. Its then is told in the end, and
// the job counts as running until that has returned. False when too many are on
// their way, or none is carried any more: then nothing was done.
func (s *settler) submitAsync(m *pendingMove) bool {
	s.mu.Lock()
	if s.closed || !s.asyncMoves.room(m) {
		s.mu.Unlock()
		return false
	}
	s.asyncMoves.add(m, 1)
	s.c.d.untold.Add(1)
	s.moves = append(s.moves, m)
	wait := s.running || s.mayWait()
	s.mu.Unlock()
	if !wait {
		s.kick()
	}
	return true
}

// tally counts moves and the bytes of their payloads.
type tally struct{ moves, bytes atomic.Int64 }

// add counts m, or takes it off with a sign of -1.
func (t *tally) add(m *pendingMove, sign int64) {
	t.moves.Add(sign)
	t.bytes.Add(sign * m.size())
}

// room tells whether m may be added.
func (t *tally) room(m *pendingMove) bool {
	n := t.moves.Load()
	return n == 0 || n < asyncMax && t.bytes.Load()+m.size() <= asyncBytes
}

func (m *pendingMove) size() int64 { return int64(len(m.move.Payload) + len(m.move.Unit.Payload)) }

// mayWait tells whether the moves, none of them waited for, may wait for company, and
// sees to it that they do not wait for ever. s.mu is held.
func (s *settler) mayWait() bool {
	if s.alone || len(s.moves) >= asyncBatch {
		return false
	}
	s.wait()
	return true
}

// wait has what waits for company written in time. s.mu is held.
func (s *settler) wait() {
	if s.company != nil || s.closed {
		return
	}
	s.company = time.AfterFunc(asyncDelay, func() {
		s.mu.Lock()
		s.company, s.alone = nil, true
		s.mu.Unlock()
		s.kick()
	})
}

// end tells those who wait that their moves are over, and has the others told of.
func (s *settler) end(moves []*pendingMove) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range moves {
		if m.then == nil {
			close(m.done)
		} else {
			s.reports = append(s.reports, m)
		}
	}
	if len(s.reports) > 0 && !s.reporting {
		s.reporting = true
		s.c.env.System.Spawn(s.c.path(""), s.report)
	}
}

// report tells of what is over, in a goroutine of its own: a writer of log
// lines that blocks must not keep anything from being settled.
func (s *settler) report() {
	for {
		s.mu.Lock()
		moves := s.reports
		s.reports = nil
		if len(moves) == 0 {
			s.reporting = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		for k, m := range moves {
			s.tell(m, moves[k+1:])
		}
	}
}

// tell tells of m; should that leave the goroutine, as the user's log hook may,
// another one goes on with the rest.
func (s *settler) tell(m *pendingMove, rest []*pendingMove) {
	d, returned := s.c.d, false
	defer func() {
		s.asyncMoves.add(m, -1)
		if !returned {
			s.mu.Lock()
			s.reports = append(slices.Clone(rest), s.reports...)
			s.mu.Unlock()
			s.c.env.System.Spawn(s.c.path(""), s.report)
		}
		d.untold.Add(-1)
		d.env.Changes.Wake()
	}()
	m.then.over()
	returned = true
}
