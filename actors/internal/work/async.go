package work

import (
	"slices"
	"time"

	"github.com/troupehq/troupe/fetch"
)

const (
	// asyncDelay is how long moves that nobody waits for are kept, so that more of them share a
	// call. With asyncBatch of them the call is made at once: it costs half as much a job as a
	// call with twenty.
	asyncDelay = 5 * time.Millisecond
	asyncBatch = 128
)

// delayOf is how long moves wait for company: those of jobs that are done no longer than acks, since somebody may wait for what
// they push, or for the slots that they leave. A job that was asked ahead has left them in plenty.
func delayOf(moves []*Move) time.Duration {
	if slices.ContainsFunc(moves, func(m *Move) bool { return m.To == fetch.ToNone && !inPlenty(m.Effects) }) {
		return ackDelay
	}
	return asyncDelay
}

// inPlenty reports whether the only effect is that the job leaves limits that had let it in ahead of its run.
func inPlenty(e *fetch.Effects) bool {
	return e != nil && e.Rules != nil && e.Rules.Ahead && e.Rules.Said == nil && e.Lock == nil && e.Count == nil && e.Result == nil && e.Hash == nil && len(e.Push) == 0
}

// Untold is how many moves are on their way that nobody waits for, or are still to be
// told of.
func (s *Settler) Untold() int64 { return s.async.moves.Load() }

// SubmitAsync hands a move over whose job's slot goes on at once: jobs that fail
// travel together however few slots there are. Its Then is called in the end, and
// the job counts as running until that has returned. False when too many are on
// their way, or none is carried any more: then nothing was done.
func (s *Settler) SubmitAsync(m *Move) bool {
	s.mu.Lock()
	if s.closed || !s.async.room(m) {
		s.mu.Unlock()
		return false
	}
	s.async.add(m, 1)
	s.moves = append(s.moves, m)
	wait := !m.waitedFor() && s.mayWaitLocked([]*Move{m})
	s.mu.Unlock()
	if !wait {
		s.kick()
	}
	return true
}

// mayWaitLocked tells whether these moves, which nobody waits for, may wait for company, and sees to it that they do not wait
// for ever.
func (s *Settler) mayWaitLocked(moves []*Move) bool {
	if s.alone || len(s.moves) >= asyncBatch || s.closed {
		return false
	}
	delay := delayOf(moves)
	if at := time.Now().Add(delay); s.company == nil {
		s.leaves = at
		s.company = time.AfterFunc(delay, func() {
			s.mu.Lock()
			s.company, s.alone = nil, true
			s.mu.Unlock()
			s.kick()
		})
	} else if at.Before(s.leaves) {
		s.leaves = at
		s.company.Reset(delay)
	}
	return true
}

// end tells those who wait that their moves are over, and queues the reports of the moves that nobody
// waits for.
func (s *Settler) end(moves []*Move) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range moves {
		if m.Then == nil {
			close(m.Done)
		} else {
			s.reports = append(s.reports, m)
		}
	}
	if len(s.reports) > 0 && !s.reporting {
		s.reporting = true
		s.env.System.Spawn(s.host.Path(), s.report)
	}
}

// report tells of what is over, in a goroutine of its own: a writer of log
// lines that blocks must not keep anything from being settled.
func (s *Settler) report() {
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
func (s *Settler) tell(m *Move, rest []*Move) {
	returned := false
	defer func() {
		s.async.add(m, -1)
		if !returned {
			s.mu.Lock()
			s.reports = append(slices.Clone(rest), s.reports...)
			s.mu.Unlock()
			s.env.System.Spawn(s.host.Path(), s.report)
		}
		s.env.Changes.Wake()
	}()
	m.Then()
	returned = true
}
