package actors

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/fetch"
)

// work is one fetched unit on its way through this process, with all that its run
// needs: the units of one fetch are made at once.
type work struct {
	unit    fetch.Unit
	fetched time.Time
	state   atomic.Uint32 // a workState

	// Guarded by the ledger.
	order      uint64 // of the fetch
	prev, next *work
	listed     bool

	began    atomic.Bool // what the payload says is in run, and will not change
	byItself atomic.Bool // it ended, and its own outcome is what gets settled; false again if that is refused
	again    atomic.Bool // it was interrupted, and goes on in another run

	iterated string // jid of an iterable job that is done: its state goes when the ack is in Redis

	run execution
}

// own notes that the job's own outcome decided its outcome.
func (w *work) own() { w.byItself.Store(true) }

// goesOn notes that the job was interrupted.
func (w *work) goesOn() { w.again.Store(true) }

type workState = uint32

const (
	open     workState = iota // fetched; may be waiting or running
	settling                  // its outcome is decided, the I/O is under way
	gone                      // settled, or no longer ours
)

func (w *work) ref() JobRef {
	if w.began.Load() {
		return JobRef{JID: w.run.jid, Class: w.run.class, Queue: w.unit.Queue, Started: w.run.started}
	}
	ref := JobRef{Queue: w.unit.Queue}
	if p, err := troupe.ParsePayload(w.unit.Payload); err == nil {
		ref.Class, ref.JID = p.DisplayClass(), p.JID()
	}
	return ref
}

func (w *work) interrupt(cause error) {
	if w.began.Load() && w.run.job.Cancel(cause) && !errors.Is(cause, troupe.ErrShutdown) { // the stop looks for itself
		w.run.cancelled(cause)
	}
}

// ledger knows every unit that this capsule has fetched and not settled.
// Leaving the state open is the linearization point: whoever takes a unit out
// owns its outcome, everybody else gets false. Its lock is never held across I/O,
// and not needed to take one unit.
type ledger struct {
	mu      sync.Mutex
	first   *work // of the list of all units, open and settling, oldest first
	last    *work
	n       int
	fetches uint64 // units ever entered
	sealed  bool
	changed chan struct{} // closed and replaced when units leave; nil if nobody waits
	valid   atomic.Uint64 // units of an incarnation below it are somebody else's
}

func newLedger() *ledger { return &ledger{} }

// add enters fetched units; false when the ledger is sealed: then none was
// entered and the caller gives them back.
func (l *ledger) add(ws []*work) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sealed {
		return false
	}
	for _, w := range ws {
		l.fetches++
		w.order = l.fetches
		l.link(w)
	}
	return true
}

// claim enters units whose outcome is decided already: fetched too late to run.
func (l *ledger) claim(ws []*work) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range ws {
		w.state.Store(settling)
		l.link(w)
	}
}

// link appends w to the list. l.mu is held.
func (l *ledger) link(w *work) {
	w.prev, w.next, w.listed = l.last, nil, true
	if l.last != nil {
		l.last.next = w
	} else {
		l.first = w
	}
	l.last = w
	l.n++
}

// unlink takes w off the list, once. l.mu is held.
func (l *ledger) unlink(w *work) {
	if !w.listed {
		return
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		l.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		l.last = w.prev
	}
	w.prev, w.next, w.listed = nil, nil, false
	l.n--
}

// isOpen tells whether w may (still) be started.
func (l *ledger) isOpen(w *work) bool { return w.state.Load() == open }

// take claims w; false when its outcome was decided elsewhere.
func (l *ledger) take(w *work) bool { return w.state.CompareAndSwap(open, settling) }

// settled removes units whose outcome is now in Redis.
func (l *ledger) settled(ws ...*work) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range ws {
		w.state.Store(gone)
		l.unlink(w)
	}
	l.notify()
}

// sealAndTake ends all entering and claims every open unit, oldest first.
func (l *ledger) sealAndTake() []*work {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sealed = true
	var ws []*work
	for w := l.first; w != nil; w = w.next {
		if l.take(w) {
			ws = append(ws, w)
		}
	}
	l.notify()
	return ws
}

// fence notes that the units of incarnation inc and before are somebody else's.
func (l *ledger) fence(inc uint64) {
	for {
		valid := l.valid.Load()
		if inc < valid || l.valid.CompareAndSwap(valid, inc+1) {
			return
		}
	}
}

// ours drops from ws the units that are somebody else's: what a call has said of
// them had no effect.
func (l *ledger) ours(ws []*work) []*work {
	valid := l.valid.Load()
	return slices.DeleteFunc(ws, func(w *work) bool { return w.unit.Incarnation < valid })
}

// fenced removes every unit fetched by incarnation inc or before: they belong
// to somebody else now. It returns those that were open, and the number of
// settlements that came too late.
func (l *ledger) fenced(inc uint64) (interrupted []*work, late int) {
	l.fence(inc)
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := l.first; w != nil; {
		next := w.next
		if w.unit.Incarnation <= inc {
			if w.state.Swap(gone) == open {
				interrupted = append(interrupted, w)
			} else {
				late++
			}
			l.unlink(w)
		}
		w = next
	}
	l.notify()
	return interrupted, late
}

// all returns every unit that is not settled, oldest first.
func (l *ledger) all() []*work {
	l.mu.Lock()
	defer l.mu.Unlock()
	ws := make([]*work, 0, l.n)
	for w := l.first; w != nil; w = w.next {
		ws = append(ws, w)
	}
	return ws
}

// size is the number of units that are not settled.
func (l *ledger) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// waitEmpty waits until every unit is settled; false when ctx ends first.
func (l *ledger) waitEmpty(ctx context.Context) bool {
	for {
		l.mu.Lock()
		if l.n == 0 {
			l.mu.Unlock()
			return true
		}
		if l.changed == nil {
			l.changed = make(chan struct{})
		}
		ch := l.changed
		l.mu.Unlock()
		select {
		case <-ch:
		case <-ctx.Done():
			return false
		}
	}
}

func (l *ledger) notify() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}
