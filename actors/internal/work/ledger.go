package work

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Ledger knows every job that a capsule has fetched and not settled.
// Leaving the state open is the linearization point: whoever takes a unit out
// owns its outcome, everybody else gets false. Its lock is never held across I/O,
// and not needed to take one unit.
type Ledger struct {
	mu     sync.Mutex
	first  *Item // of the list of all units, open and settling, oldest first
	last   *Item
	n      int
	sealed bool
	valid  atomic.Uint64 // units of an incarnation below it are somebody else's
}

// Add enters fetched units; false when the ledger is sealed: then none was
// entered and the caller gives them back.
func (l *Ledger) Add(ws []*Item) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sealed {
		return false
	}
	for _, w := range ws {
		l.linkLocked(w)
	}
	return true
}

// Claim enters units whose outcome is decided already: fetched too late to run.
func (l *Ledger) Claim(ws []*Item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range ws {
		w.state.Store(settling)
		l.linkLocked(w)
	}
}

// linkLocked appends w to the list.
func (l *Ledger) linkLocked(w *Item) {
	w.prev, w.next, w.listed = l.last, nil, true
	if l.last != nil {
		l.last.next = w
	} else {
		l.first = w
	}
	l.last = w
	l.n++
}

// unlinkLocked takes w off the list, once.
func (l *Ledger) unlinkLocked(w *Item) {
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

// IsOpen tells whether w may (still) be started.
func (l *Ledger) IsOpen(w *Item) bool { return w.state.Load() == open }

// Take claims w; false when its outcome was decided elsewhere.
func (l *Ledger) Take(w *Item) bool { return w.state.CompareAndSwap(open, settling) }

// Settled removes units whose outcome is now in Redis.
func (l *Ledger) Settled(ws ...*Item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range ws {
		w.state.Store(gone)
		l.unlinkLocked(w)
	}
}

// SealAndTake ends all entering and claims every open unit, oldest first.
func (l *Ledger) SealAndTake() []*Item {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sealed = true
	var ws []*Item
	for w := l.first; w != nil; w = w.next {
		if l.Take(w) {
			ws = append(ws, w)
		}
	}
	return ws
}

// Fence notes that the units of incarnation inc and before are somebody else's.
func (l *Ledger) Fence(inc uint64) {
	for {
		valid := l.valid.Load()
		if inc < valid || l.valid.CompareAndSwap(valid, inc+1) {
			return
		}
	}
}

// Ours drops from ws the units that are somebody else's: what a call has said of
// them had no effect.
func (l *Ledger) Ours(ws []*Item) []*Item {
	valid := l.valid.Load()
	return slices.DeleteFunc(ws, func(w *Item) bool { return w.Unit.Incarnation < valid })
}

// Fenced removes every unit fetched by incarnation inc or before: they belong
// to somebody else now. It returns those that were open, and the number of
// settlements that came too late.
func (l *Ledger) Fenced(inc uint64) (interrupted []*Item, late int) {
	l.Fence(inc)
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := l.first; w != nil; {
		next := w.next
		if w.Unit.Incarnation <= inc {
			if w.state.Swap(gone) == open {
				interrupted = append(interrupted, w)
			} else {
				late++
			}
			l.unlinkLocked(w)
		}
		w = next
	}
	return interrupted, late
}

// All returns every unit that is not settled, oldest first.
func (l *Ledger) All() []*Item {
	l.mu.Lock()
	defer l.mu.Unlock()
	ws := make([]*Item, 0, l.n)
	for w := l.first; w != nil; w = w.next {
		ws = append(ws, w)
	}
	return ws
}

// Size is the number of units that are not settled.
func (l *Ledger) Size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}
