package actors

import "time"

// mateTime is how long the acks of units that were fetched together wait for each
// other; see fetch.Parcel.
const mateTime = 5 * time.Millisecond

// gather adds the ack of w to those of its mates. It tells whether all have come:
// then they go as any others. s.mu is held.
func (s *settler) gather(w *work) bool {
	m := w.mates
	if m.acked == nil {
		m.acked, m.since = make([]*work, 0, m.left), time.Now()
		s.groups = append(s.groups, m)
		if s.late == nil && !s.closed {
			s.late = time.AfterFunc(mateTime, s.matesLate)
		}
	}
	m.acked = append(m.acked, w)
	m.left--
	if m.left > 0 {
		return false
	}
	s.release(m)
	return true
}

// release lets the acks of m go, and those to come by themselves. s.mu is held.
func (s *settler) release(m *mates) {
	m.broken = m.broken || m.left > 0 && len(m.acked) > 0
	s.acks = append(s.acks, m.acked...)
	m.acked, m.apart = nil, true
}

// part ends the waiting of those whose mates go another way. s.mu is held.
func (s *settler) part(moves ...*pendingMove) {
	for _, p := range moves {
		if m := p.w.mates; m != nil && !m.apart {
			s.release(m)
		}
	}
	s.arm()
}

// matesLate is the timer.
func (s *settler) matesLate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = nil
	now, kept := time.Now(), s.groups[:0]
	for _, m := range s.groups {
		switch {
		case m.apart:
		case now.Sub(m.since) < mateTime:
			kept = append(kept, m)
		default:
			s.release(m)
		}
	}
	clear(s.groups[len(kept):])
	s.groups = kept
	if len(kept) > 0 && !s.closed {
		s.late = time.AfterFunc(mateTime-now.Sub(kept[0].since), s.matesLate)
	}
	s.arm()
}
