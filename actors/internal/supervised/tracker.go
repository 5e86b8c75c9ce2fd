package supervised

import (
	"context"
	"sync"
	"sync/atomic"
)

// Broadcast wakes everybody who waits, like a condition variable that can be
// used in a select.
type Broadcast struct {
	waiting atomic.Int64 // who is in Await: without any, a Wake costs next to nothing
	mu      sync.Mutex
	ch      chan struct{}
}

// NewBroadcast makes a Broadcast.
func NewBroadcast() *Broadcast { return &Broadcast{ch: make(chan struct{})} }

// Wake wakes all who wait now.
func (b *Broadcast) Wake() {
	if b.waiting.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.ch)
	b.ch = make(chan struct{})
}

// next is closed at the next Wake. Take it before looking at the condition.
func (b *Broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ch
}

// Await waits until cond holds; false when ctx ends first.
func (b *Broadcast) Await(ctx context.Context, cond func() bool) bool {
	b.waiting.Add(1) // before the first look: who changes something later wakes us
	defer b.waiting.Add(-1)
	for {
		ch := b.next()
		if cond() {
			return true
		}
		select {
		case <-ch:
		case <-ctx.Done():
			return cond()
		}
	}
}

// Tracker counts goroutines; unlike a WaitGroup it may grow while it is waited for.
type Tracker struct {
	*Broadcast
	mu sync.Mutex
	n  int
}

// NewTracker makes a Tracker of none.
func NewTracker() *Tracker { return &Tracker{Broadcast: NewBroadcast()} }

// Add counts n goroutines more.
func (t *Tracker) Add(n int) {
	t.mu.Lock()
	t.n += n
	idle := t.n == 0
	t.mu.Unlock()
	if idle {
		t.Wake()
	}
}

// Done counts one less.
func (t *Tracker) Done() { t.Add(-1) }

// Idle tells whether there is none.
func (t *Tracker) Idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n == 0
}
