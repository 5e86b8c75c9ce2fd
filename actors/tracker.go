package actors

import (
	"context"
	"sync"
)

// broadcast wakes everybody who waits, like a condition variable that can be
// used in a select.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

func newBroadcast() *broadcast { return &broadcast{ch: make(chan struct{})} }

func (b *broadcast) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.ch)
	b.ch = make(chan struct{})
}

// next is closed at the next ring. Take it before looking at the condition.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ch
}

// await waits until cond holds; false when ctx ends first.
func (b *broadcast) await(ctx context.Context, cond func() bool) bool {
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

// tracker counts goroutines; unlike a WaitGroup it may grow while it is waited for.
type tracker struct {
	*broadcast
	mu sync.Mutex
	n  int
}

func newTracker() *tracker { return &tracker{broadcast: newBroadcast()} }

func (t *tracker) Add(n int) {
	t.mu.Lock()
	t.n += n
	idle := t.n == 0
	t.mu.Unlock()
	if idle {
		t.ring()
	}
}

func (t *tracker) Done() { t.Add(-1) }

func (t *tracker) idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n == 0
}
