package actors

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/fetch"
)

// work is one fetched unit on its way through this process.
type work struct {
	unit    fetch.Unit
	state   workState // guarded by the ledger
	order   uint64    // of the fetch; set by the ledger
	fetched time.Time

	// Set by the executor before the handler runs, read by views.
	mu         sync.Mutex
	class, jid string
	started    time.Time
	cancel     context.CancelCauseFunc // nil until the job runs
	byItself   bool                    // it ended, and its own outcome is what gets settled
}

// own notes that the job's own outcome decided its fate.
func (w *work) own() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.byItself = true
}

type workState uint8

const (
	open     workState = iota // fetched; may be waiting or running
	settling                  // its fate is decided, the I/O is under way
	gone                      // settled, or no longer ours
)

// describe records what the payload says.
func (w *work) describe(class, jid string, started time.Time, cancel context.CancelCauseFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.class, w.jid, w.started, w.cancel = class, jid, started, cancel
}

func (w *work) ref() JobRef {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.jid == "" { // never started
		if p, err := troupe.ParsePayload(w.unit.Payload); err == nil {
			w.class, w.jid = p.DisplayClass(), p.JID()
		}
	}
	return JobRef{JID: w.jid, Class: w.class, Queue: w.unit.Queue, Started: w.started}
}

func (w *work) interrupt(cause error) {
	w.mu.Lock()
	cancel := w.cancel
	w.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
}

// ledger knows every unit that this capsule has fetched and not settled.
// Leaving the state open is the linearization point: whoever takes a unit out
// owns its fate, everybody else gets false. Its lock is never held across I/O.
type ledger struct {
	mu      sync.Mutex
	units   map[*work]struct{} // open and settling
	nopen   int
	fetches uint64 // units ever entered
	sealed  bool
	changed chan struct{} // closed and replaced when units leave; nil if nobody waits
}

func newLedger() *ledger { return &ledger{units: map[*work]struct{}{}} }

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
		l.units[w] = struct{}{}
	}
	l.nopen += len(ws)
	return true
}

// claim enters units whose fate is decided already: fetched too late to run.
func (l *ledger) claim(ws []*work) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range ws {
		w.state = settling
		l.units[w] = struct{}{}
	}
}

// isOpen tells whether w may (still) be started.
func (l *ledger) isOpen(w *work) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return w.state == open
}

// take claims w; false when its fate was decided elsewhere.
func (l *ledger) take(w *work) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.state != open {
		return false
	}
	w.state = settling
	l.nopen--
	return true
}

// settled removes units whose fate is now in Redis.
func (l *ledger) settled(ws ...*work) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range ws {
		if w.state == open {
			l.nopen--
		}
		w.state = gone
		delete(l.units, w)
	}
	l.notify()
}

// sealAndTake ends all entering and claims every open unit, oldest first.
func (l *ledger) sealAndTake() []*work {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sealed = true
	var ws []*work
	for w := range l.units {
		if w.state == open {
			w.state = settling
			ws = append(ws, w)
		}
	}
	l.nopen = 0
	l.notify()
	slices.SortFunc(ws, func(a, b *work) int { return cmp.Compare(a.order, b.order) })
	return ws
}

// fenced removes every unit fetched by incarnation inc or before: they belong
// to somebody else now. It returns those that were open, and the number of
// settlements that came too late.
func (l *ledger) fenced(inc uint64) (interrupted []*work, late int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.units {
		if w.unit.Incarnation > inc {
			continue
		}
		if w.state == open {
			l.nopen--
			interrupted = append(interrupted, w)
		} else {
			late++
		}
		w.state = gone
		delete(l.units, w)
	}
	l.notify()
	return interrupted, late
}

// held returns the units that are still ours in Redis.
func (l *ledger) held() []fetch.Unit {
	l.mu.Lock()
	defer l.mu.Unlock()
	us := make([]fetch.Unit, 0, len(l.units))
	for w := range l.units {
		us = append(us, w.unit)
	}
	return us
}

func (l *ledger) counts() (open, total int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nopen, len(l.units)
}

// waitEmpty waits until every unit is settled; false when ctx ends first.
func (l *ledger) waitEmpty(ctx context.Context) bool {
	for {
		l.mu.Lock()
		if len(l.units) == 0 {
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
