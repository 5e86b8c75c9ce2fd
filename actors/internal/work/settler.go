package work

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupehq/troupe/actors/internal/env"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/redisconn"
)

// ackDelay is how long a finished job's ack waits for company: the next fetch
// takes it along; if none comes in time it goes alone.
const ackDelay = 500 * time.Microsecond

// Settler carries outcomes to Redis: acks in the next fetch call or after ackDelay, moves
// (retry, death, requeue) at once, whatever waits together. It belongs to the capsule and
// not to an actor, so that no crash and no stop of an actor can keep a finished job from
// being settled. While Redis is away everything waits here; at the end of the stop it gives
// up, and what is left stays in progress for a rescuer.
type Settler struct {
	env  *env.Env
	host Host

	mu      sync.Mutex
	waiting atomic.Int64 // len(acks)
	acks    []*Item
	moves   []*Move
	refused []*Move     // by Redis, to be tried again later
	most    int         // how many moves a call carries, after one that was not answered; 0: all
	timer   *time.Timer // armed while acks wait and nobody carries them
	running bool        // a flush loop is at work
	closed  bool

	company   *time.Timer // armed while moves that nobody waits for wait for more
	leaves    time.Time   // when it fires
	alone     bool        // they have waited long enough
	async     tally       // moves that nobody waits for, until they are told of
	reports   []*Move     // of those, the ones that are over
	reporting bool        // a goroutine tells of them
}

// Host is the capsule of a Settler.
type Host interface {
	// Path is that of the actor to which the goroutines belong.
	Path() string
	// CarriesAcks tells whether a Take that takes the acks along begins soon.
	CarriesAcks() bool
	// Ack makes one try to settle items that are done. The acks of one that fails are put back.
	Ack(acks []*Item) error
	// Settle makes one try to carry out moves. The error is a *fetch.FencedError when they are
	// somebody else's by now.
	Settle(ctx context.Context, moves []fetch.Move) ([]fetch.Result, error)
	// Reached tells whether Redis answers a call without a payload.
	Reached(ctx context.Context) bool
	// Settled is called with items whose outcome is in Redis.
	Settled(items ...*Item)
}

// NewSettler makes the Settler of host.
func NewSettler(e *env.Env, host Host) *Settler { return &Settler{env: e, host: host} }

// Acks is how many acks wait.
func (s *Settler) Acks() int { return int(s.waiting.Load()) }

// setAcksLocked replaces the acks that wait.
func (s *Settler) setAcksLocked(ws []*Item) {
	s.acks = ws
	s.waiting.Store(int64(len(ws)))
}

// Ack marks w done.
func (s *Settler) Ack(w *Item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setAcksLocked(append(s.acks, w))
	s.armLocked()
}

// Grab hands the waiting acks to a fetch call; if that fails they are put back.
func (s *Settler) Grab() []*Item {
	s.mu.Lock()
	defer s.mu.Unlock()
	ws := s.acks
	s.setAcksLocked(make([]*Item, 0, len(ws))) // there will be as many
	return ws
}

// PutBack returns acks whose call failed.
func (s *Settler) PutBack(ws []*Item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setAcksLocked(append(ws, s.acks...))
	s.armLocked()
}

// armLocked starts the timer for waiting acks.
func (s *Settler) armLocked() {
	if s.timer == nil && !s.running && len(s.acks) > 0 && !s.closed {
		s.timer = time.AfterFunc(ackDelay, s.acksOld)
	}
}

// acksOld is the timer: the next fetch call takes the acks along if there is
// one, else they go alone.
func (s *Settler) acksOld() {
	carried := s.Acks() > 0 && s.host.CarriesAcks()
	s.mu.Lock()
	s.timer = nil
	if carried {
		s.armLocked()
	}
	s.mu.Unlock()
	if !carried {
		s.kick()
	}
}

// Submit hands moves over; each closes its done channel when it is over.
func (s *Settler) Submit(moves ...*Move) {
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

func giveUp(moves []*Move) {
	for _, m := range moves {
		m.Err = errGaveUp
		close(m.Done)
	}
}

// kick starts the flush loop if none is at work.
func (s *Settler) kick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running || s.closed || len(s.acks)+len(s.moves) == 0 {
		return
	}
	s.running = true
	s.env.System.Spawn(s.host.Path(), s.loop)
}

func (s *Settler) loop() {
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
		acks, moves := s.acks, s.dueLocked()
		if len(acks)+len(moves) == 0 || s.closed {
			// in the same critical section as the look: what is submitted after
			// it must find nobody running
			normal, s.running = true, false
			s.mu.Unlock()
			return
		}
		s.setAcksLocked(nil)
		s.mu.Unlock()

		err := s.flush(acks, moves)
		if err == nil {
			try = 0
			continue
		}
		try++
		if !s.env.Pause(s.env.Settling, s.host.Path()+"/settle", try) {
			s.mu.Lock()
			normal, s.running = true, false
			s.mu.Unlock()
			return
		}
	}
}

// dueLocked are the moves that are to be written now. Those that nobody waits for may wait for company, and questions, which
// are a call of their own, do not take them along.
func (s *Settler) dueLocked() []*Move {
	var asking, others []*Move
	for _, m := range s.moves {
		switch {
		case !m.waitedFor():
			others = append(others, m)
		case m.To == fetch.ToStay:
			asking = append(asking, m)
		default:
			return slices.Clone(s.moves)
		}
	}
	if len(others) > 0 && s.mayWaitLocked(others) {
		return asking
	}
	return slices.Clone(s.moves)
}

// waitedFor tells whether somebody waits for the move: its run, or who waits for the result that it carries.
func (m *Move) waitedFor() bool { return m.Then == nil || m.Effects != nil && m.Effects.Result != nil }

// flush makes one attempt; acks that fail go back.
func (s *Settler) flush(acks []*Item, moves []*Move) error {
	if len(acks) > 0 {
		if err := s.host.Ack(acks); err != nil {
			return err
		}
	}
	if len(moves) == 0 {
		return nil
	}
	if s.most > 0 {
		moves = moves[:min(s.most, len(moves))]
	}
	err := s.write(moves)
	if redisconn.Classify(err) != redisconn.Command {
		return s.narrow(moves, err)
	}
	// One of them is refused (a key of a wrong type, say): it waits apart, and the
	// others go on.
	for _, m := range moves {
		err := s.write([]*Move{m})
		if redisconn.Classify(err) == redisconn.Command {
			s.postpone(m)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// write makes one attempt to settle moves; those that succeed are over.
func (s *Settler) write(moves []*Move) error {
	batch := make([]fetch.Move, len(moves))
	for i, m := range moves {
		batch[i] = m.Move
	}
	ctx, cancel := s.env.Call()
	defer cancel()
	results, err := s.host.Settle(ctx, batch)
	if errchain.Has[*fetch.FencedError](err) {
		return nil // the next attempt goes to a new incarnation, which knows none of the old receipts
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	closed, awaited := s.closed, true
	for _, m := range moves {
		m.over, awaited = true, awaited && m.waitedFor()
	}
	s.moves = slices.DeleteFunc(s.moves, func(m *Move) bool { return m.over })
	s.alone = s.alone && awaited
	s.mu.Unlock()
	if closed {
		return nil // given up already: reported as left, though it came to a good end
	}
	items := make([]*Item, 0, len(moves))
	for i, m := range moves {
		m.Result = results[i]
		if m.To == fetch.ToStay {
			continue
		}
		items = append(items, m.Item)
		if m.large { // it is not what was decided
			m.Result = fetch.NotMine
		}
		if m.Result == fetch.NotMine {
			m.Item.ByItself.Store(false)
		}
	}
	s.host.Settled(items...)
	s.end(moves)
	return nil
}

// Gone takes an item off that is in Redis by a move to ToStay: a limit holds it.
func (s *Settler) Gone(w *Item) { s.host.Settled(w) }

// Close gives up: what waits is reported as not settled.
func (s *Settler) Close() {
	s.mu.Lock()
	s.closed = true
	moves := append(s.moves, s.refused...)
	s.moves, s.refused = nil, nil
	for _, t := range []*time.Timer{s.timer, s.company} {
		if t != nil {
			t.Stop()
		}
	}
	s.timer, s.company = nil, nil
	s.mu.Unlock()
	for _, m := range moves {
		m.Err = errGaveUp
	}
	s.end(moves)
}
