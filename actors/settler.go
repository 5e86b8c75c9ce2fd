package actors

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/redisconn"
)

// ackDelay is how long a finished job's ack waits for company: the next fetch
// takes it along; if none comes in time it goes alone.
const ackDelay = 500 * time.Microsecond

// settler carries outcomes to Redis: acks in the next fetch call or after
// ackDelay, moves (retry, death, requeue) at once, whatever waits together. It
// belongs to the capsule and not to an actor, so that no crash and no stop of an
// actor can keep a finished job from being settled. While Redis is away
// everything waits here; at the end of the stop protocol it gives up, and what
// is left stays in its private place for a rescuer.
type settler struct {
	c *capsule

	mu      *sync.Mutex // the capsule's: each job that ends needs both, and one lock is less than two
	acks    []*work
	moves   []*pendingMove
	waiting []*pendingMove // refused by Redis, to be tried again later
	timer   *time.Timer    // armed while acks wait and nobody carries them
	running bool           // a flush loop is at work
	closed  bool

	company    *time.Timer    // armed while moves that nobody waits for wait for more
	alone      bool           // they have waited long enough
	asyncMoves tally          // whose end nobody waits for, until they are told of
	reports    []*pendingMove // of those, the ones that are over
	reporting  bool           // a goroutine tells of them
}

type pendingMove struct {
	w      *work
	move   fetch.Move
	result fetch.Result
	err    error         // set when the settler gave up
	done   chan struct{} // closed when result or err is set; nil if nobody waits for it
	parked chan struct{} // closed when Redis has refused it; nil if nobody wants to know
	then   *asyncMove    // of one that nobody waits for: told when result or err is set
	over   bool          // in Redis; guarded by the settler
}

// errGaveUp is the error of a move that could not be written before the end.
var errGaveUp = errors.New("redis did not come back before the end of the stop; the job stays in its private place")

// ack marks w done.
func (s *settler) ack(w *work) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acked(w)
}

// acked is ack for those who hold s.mu.
func (s *settler) acked(w *work) {
	s.acks = append(s.acks, w)
	s.arm()
}

// grab hands the waiting acks to a fetch call; it must end in done or putBack.
func (s *settler) grab() []*work {
	s.mu.Lock()
	defer s.mu.Unlock()
	ws := s.acks
	s.acks = make([]*work, 0, len(ws)) // there will be as many
	return ws
}

// putBack returns acks whose call failed.
func (s *settler) putBack(ws []*work) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acks = append(ws, s.acks...)
	s.arm()
}

// arm starts the timer for waiting acks. s.mu is held.
func (s *settler) arm() {
	if s.timer == nil && !s.running && len(s.acks) > 0 && !s.closed {
		s.timer = time.AfterFunc(ackDelay, s.acksOld)
	}
}

// acksOld is the timer: the next fetch call takes the acks along if there is
// one, else they go alone.
func (s *settler) acksOld() {
	s.mu.Lock()
	carried := len(s.acks) > 0 && s.c.acksWait()
	s.timer = nil
	if carried {
		s.arm()
	}
	s.mu.Unlock()
	if !carried {
		s.kick()
	}
}

// submit hands moves over; each closes its done channel when it is over.
func (s *settler) submit(moves ...*pendingMove) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		giveUp(moves)
		return
	}
	s.moves = append(s.moves, moves...)
	s.mu.Unlock()
	s.kick()
}

func giveUp(moves []*pendingMove) {
	for _, m := range moves {
		m.err = errGaveUp
		close(m.done)
	}
}

// kick starts the flush loop if none is at work.
func (s *settler) kick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running || s.closed || len(s.acks)+len(s.moves) == 0 {
		return
	}
	s.running = true
	s.c.env.System.Spawn(s.c.path(""), s.loop)
}

func (s *settler) loop() {
	normal := false
	defer func() {
		if normal {
			return
		}
		// a panic in a third party's fetcher: what waits must not wait for ever
		s.mu.Lock()
		s.running = false
		s.mu.Unlock()
		time.AfterFunc(time.Second, s.kick)
	}()
	for try := 0; ; {
		s.mu.Lock()
		acks, moves := s.acks, slices.Clone(s.moves)
		if len(acks)+len(moves) == 0 || s.closed || len(acks) == 0 && !awaited(moves) && s.mayWait() {
			if len(s.moves) > 0 {
				s.wait()
			}
			// in the same critical section as the look: what is submitted after
			// it must find nobody running
			normal, s.running = true, false
			s.mu.Unlock()
			return
		}
		s.acks = nil
		s.mu.Unlock()

		err := s.flush(acks, moves)
		if err == nil {
			try = 0
			continue
		}
		try++
		if !s.c.env.Pause(s.c.env.Settling, s.c.path("settle"), try) {
			s.mu.Lock()
			normal, s.running = true, false
			s.mu.Unlock()
			return
		}
	}
}

// awaited tells whether somebody waits for one of the moves.
func awaited(moves []*pendingMove) bool {
	return slices.ContainsFunc(moves, func(m *pendingMove) bool { return m.then == nil })
}

// flush makes one attempt; acks that fail go back.
func (s *settler) flush(acks []*work, moves []*pendingMove) error {
	c := s.c
	if len(acks) > 0 {
		if err := c.exchange(0, acks); err != nil {
			return err
		}
	}
	if len(moves) == 0 {
		return nil
	}
	err := s.write(moves)
	if redisconn.Classify(err) != redisconn.Command {
		return err
	}
	// One of them is refused (a key of a wrong type, say): it waits apart, and the
	// others go on.
	for _, m := range moves {
		err := s.write([]*pendingMove{m})
		if redisconn.Classify(err) == redisconn.Command {
			s.park(m)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// parkTime is the wait between two tries with a move that Redis refuses.
const parkTime = time.Second

// park takes a refused move off the list for a while. Its job's slot need not
// wait for it.
func (s *settler) park(m *pendingMove) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.moves = slices.DeleteFunc(s.moves, func(o *pendingMove) bool { return o == m })
	if m.parked != nil {
		select {
		case <-m.parked:
		default:
			close(m.parked)
		}
	}
	s.waiting = append(s.waiting, m)
	if len(s.waiting) == 1 {
		time.AfterFunc(parkTime, s.unpark)
	}
}

func (s *settler) unpark() {
	s.mu.Lock()
	s.moves = append(s.moves, s.waiting...)
	s.waiting = nil
	s.mu.Unlock()
	s.kick()
}

// write makes one attempt to settle moves; those that succeed are over.
func (s *settler) write(moves []*pendingMove) error {
	c := s.c
	batch := make([]fetch.Move, len(moves))
	for i, m := range moves {
		batch[i] = m.move
	}
	ctx, cancel := c.env.Call()
	defer cancel()
	results, err := c.fetcher.Settle(ctx, batch)
	if fenced(err) {
		c.onFenced(err)
		c.env.Outage.OK(c.path("settle"))
		return nil // the next attempt goes to a new incarnation, which knows none of the old receipts
	}
	if err != nil {
		c.env.Outage.Failed(c.path("settle"), err)
		return err
	}
	c.env.Outage.OK(c.path("settle"))
	s.mu.Lock()
	closed := s.closed
	for _, m := range moves {
		m.over = true
	}
	s.moves = slices.DeleteFunc(s.moves, func(m *pendingMove) bool { return m.over })
	s.alone = false
	s.mu.Unlock()
	if closed {
		return nil // given up already: reported as left, though it came to a good end
	}
	ws := make([]*work, len(moves))
	for i, m := range moves {
		m.result = results[i]
		if m.result == fetch.NotMine {
			c.refused.Add(1)
			m.w.byItself.Store(false)
		}
		ws[i] = m.w
	}
	c.settled(ws...)
	s.end(moves)
	return nil
}

// close gives up: what waits is reported as not settled.
func (s *settler) close() {
	s.mu.Lock()
	s.closed = true
	moves := append(s.moves, s.waiting...)
	s.moves, s.waiting = nil, nil
	for _, t := range []*time.Timer{s.timer, s.company} {
		if t != nil {
			t.Stop()
		}
	}
	s.timer, s.company = nil, nil
	s.mu.Unlock()
	for _, m := range moves {
		m.err = errGaveUp
	}
	s.end(moves)
}
