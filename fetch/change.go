package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/osproc"
)

// queueSet is what a fetcher knows of its queues. It does not change: another takes its place.
type queueSet struct {
	wants  func(n int, r *rand.Rand) []Want
	names  []string       // of all that it ever had: each keeps its number
	index  map[string]int // queue -> number
	former map[int]bool   // those that it takes nothing from any more
	value  string         // of the registry
}

// newSet makes the set for q after the one that was; nil at first.
func (f *fetcher) newSet(q Queues, before *queueSet) (*queueSet, error) {
	s := &queueSet{wants: planner(q), index: make(map[string]int), former: make(map[int]bool)}
	if before != nil {
		s.names = slices.Clone(before.names)
	}
	now := q.List().Names()
	for _, name := range now {
		switch {
		case slices.Contains(s.names, name):
			continue
		case f.cluster && strings.ContainsAny(name, "{}"):
			return nil, fmt.Errorf("fetch: queue %q has a brace: on a cluster its keys would not lie together", name)
		case f.cluster && before != nil:
			return nil, fmt.Errorf("fetch: queue %q is new: on a cluster it takes a restart, since its jobs in progress have an index of their own", name)
		}
		s.names = append(s.names, name)
	}
	for i, name := range s.names {
		s.index[name] = i
		if !slices.Contains(now, name) {
			s.former[i] = true
		}
	}
	value, err := json.Marshal(keys.Registered{Layout: keys.Layout, Queues: s.names})
	if err != nil {
		return nil, fmt.Errorf("fetch: queue names: %w", err)
	}
	s.value = string(value)
	return s, nil
}

// SetQueues implements QueueSetter. The registry tells of a new queue before anything is
// taken from it; a queue that is left stays there, as jobs of it may be in progress.
func (f *fetcher) SetQueues(ctx context.Context, q Queues) error {
	if err := validate(q); err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	select {
	case f.changing <- struct{}{}:
		defer func() { <-f.changing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	in, err := f.current()
	if err != nil {
		return err
	}
	next, err := f.newSet(q, f.set.Load())
	if err != nil {
		return err
	}
	known := *f.set.Load()
	known.value = next.value
	f.set.Store(&known)
	if err := f.renew(ctx, in); err != nil {
		return fmt.Errorf("fetch: telling the registry of the queues: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set.Store(next)
	had := len(f.cur.waiters)
	f.cur.addWaiters()
	if f.cur.started {
		f.runLocked(f.cur.waiters[had:])
	}
	f.wakeLocked()
	for f.endFormerLocked() && ctx.Err() == nil {
		changed := f.changed
		f.mu.unlocked(func() {
			select {
			case <-changed:
			case <-ctx.Done():
			}
		})
	}
	return nil
}

// endFormerLocked ends the moves from queues that nothing is taken from any more, and tells whether
// there are any.
func (f *fetcher) endFormerLocked() (open bool) {
	for _, w := range f.cur.waiters {
		if w.open && f.set.Load().former[w.queue] {
			open = true
			w.endLocked()
		}
	}
	return open
}

// runLocked starts waiters.
func (f *fetcher) runLocked(waiters []*waiter) {
	for _, w := range waiters {
		f.running++
		osproc.Go(f.env.Identity, "waiter "+w.list.key, w.run)
	}
}

// serving is how many waiters there are for queues that it takes from.
func (in *incarnation) serving() (n int) {
	for _, w := range in.waiters {
		if !in.f.set.Load().former[w.queue] {
			n++
		}
	}
	return n
}

// SetQueues implements QueueSetter.
func (f *basic) SetQueues(_ context.Context, q Queues) error {
	if err := validate(q); err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errors.New("fetch: the fetcher is closed")
	}
	wants, r := planner(q), f.env.rand()
	f.wants = func(n int) []Want { return wants(n, r) }
	return nil
}
