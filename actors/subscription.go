package actors

import (
	"errors"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/show"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/logs"
)

const (
	// subscriberTime is how long a call of a subscriber may take at the end: one
	// that has taken longer is not waited for.
	subscriberTime = time.Second
	// complaintTime is the least time between two lines about one subscriber.
	complaintTime = time.Minute
)

var errSubscriberGoexit = errors.New("it called runtime.Goexit")

// events is the one stream of a daemon.
type events struct {
	log      zerolog.Logger
	recorder show.Recorder
	moves    *show.Moves
	ticks    *show.Ticks
	holds    *show.Holds

	wanted atomic.Bool // somebody listens: looked at before an event is made
	mu     sync.Mutex
	subs   map[*subscription]struct{}
	closed bool
}

// newEvents makes the stream of a daemon whose registry has these classes and whose
// configuration these periodic jobs and limits.
func newEvents(log zerolog.Logger, registry *troupe.Registry, periodic, limits []string) *events {
	return &events{log: log, moves: show.NewMoves(registry), ticks: show.NewTicks(periodic), holds: show.NewHolds(limits), subs: map[*subscription]struct{}{}}
}

func (e *events) subscribe(f func(event.Event)) func() {
	s := newSubscription(f, e.log)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return func() {}
	}
	e.subs[s] = struct{}{}
	e.wanted.Store(true)
	go s.run()
	return func() { e.remove(s) }
}

func (e *events) remove(s *subscription) {
	s.removed.Store(true)
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.subs[s]; ok {
		delete(e.subs, s)
		e.wanted.Store(len(e.subs) > 0)
		close(s.queue)
	}
}

// publish never blocks.
func (e *events) publish(ev event.Event) {
	e.recorder.Note(ev)
	e.moves.Note(ev)
	e.ticks.Note(ev)
	e.mu.Lock()
	defer e.mu.Unlock()
	for s := range e.subs {
		if s.dropped > 0 {
			select {
			case s.queue <- event.EventsDropped{At: time.Now(), N: s.dropped}:
				s.dropped = 0
			default:
				s.dropped++
				continue
			}
		}
		select {
		case s.queue <- ev:
		default:
			s.dropped++
		}
	}
}

// close ends the stream. What waits for the subscribers that are returned is
// still delivered.
func (e *events) close() (open []*subscription) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for s := range e.subs {
		close(s.queue)
		open = append(open, s)
	}
	clear(e.subs)
	e.wanted.Store(false)
	return open
}

// end closes the stream and waits for the subscribers, at most until then.
func (e *events) end(then time.Time) {
	for _, s := range e.close() {
		s.await(then)
	}
}

// subscription is one subscriber with what waits for it.
type subscription struct {
	f       func(event.Event)
	log     zerolog.Logger
	queue   chan event.Event
	dropped int // guarded by events.mu
	done    chan struct{}
	removed atomic.Bool  // by its cancel: it hears nothing more
	made    time.Time    // began counts from it
	began   atomic.Int64 // when the call that runs began; 0 between two

	// Of the delivering goroutine.
	failures int       // since then
	logged   time.Time // the last line about them
}

func newSubscription(f func(event.Event), log zerolog.Logger) *subscription {
	return &subscription{
		f: f, log: log.With().Str("subscriber", funcName(f)).Logger(), made: time.Now(),
		queue: make(chan event.Event, eventBuffer), done: make(chan struct{}),
	}
}

// funcName is the name of f, a function, as a stack has it.
func funcName(f any) string { return runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name() }

// run delivers until the queue is closed and empty.
func (s *subscription) run() {
	defer close(s.done)
	for ev := range s.queue {
		if s.removed.Load() {
			continue
		}
		s.began.Store(int64(time.Since(s.made)) + 1)
		err := supervised.Isolate(func() { s.f(ev) })
		s.began.Store(0)
		if err != nil {
			supervised.Tell(func() { s.complain(err) })
		}
	}
}

// complain logs that the subscriber failed: the first time with the stack, then
// once a minute how often, so that a bug in it does not fill the log.
func (s *subscription) complain(err error) {
	s.failures++
	if !s.logged.IsZero() && time.Since(s.logged) < complaintTime {
		return
	}
	log := s.log
	if s.logged.IsZero() {
		log = log.With().Bytes("stack", stackOf(err)).Logger()
	}
	if e, ok := errchain.As[*troupe.PanicError](err); ok && e.Goexit {
		err = errSubscriberGoexit
	}
	logs.Err(log.Error(), err).Int("failures", s.failures).Msg("an event subscriber failed; it gets the next event")
	s.failures, s.logged = 0, time.Now()
}

func stackOf(err error) []byte {
	if e, ok := errchain.As[*troupe.PanicError](err); ok {
		return e.Stack
	}
	return nil
}

// await waits until what was waiting for a closed subscription is delivered, at
// most until then, and not for a subscriber that does not return.
func (s *subscription) await(then time.Time) {
	for {
		patience := subscriberTime
		if began := s.began.Load(); began != 0 {
			patience -= time.Since(s.made) - time.Duration(began)
		}
		if left := time.Until(then); left < patience {
			patience = left
		}
		t := time.NewTimer(max(0, patience))
		select {
		case <-s.done:
			t.Stop()
			return
		case <-t.C:
		}
		if patience <= 0 {
			supervised.Tell(func() {
				s.log.Error().Int("events", len(s.queue)).Msg("an event subscriber did not return; going on without it")
			})
			return
		}
	}
}
