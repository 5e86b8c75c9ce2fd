package web

import (
	"context"
	"sync"
	"time"
)

// shared is what requests look at together: each thing once in a while, whoever asks.
// The zero value is ready to use.
type shared struct {
	mu  sync.Mutex
	all map[string]*look
}

// look is one look at a thing.
type look struct {
	done  chan struct{} // closed when value and err are there
	began time.Time
	value any
	err   error
}

// keepLooks is how long the result of a look is kept.
const keepLooks = time.Minute

// forget drops the kept result of a name: the next request looks again.
func (s *shared) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, name)
}

// together returns the result of see, or that of an earlier call with this name that is not older than
// age. When the request of ctx ends, see goes on: others may wait for its result.
func together[T any](ctx context.Context, s *shared, name string, age time.Duration, see func(context.Context) (T, error)) (T, error) {
	s.mu.Lock()
	l := s.all[name]
	if l == nil || time.Since(l.began) > age {
		if s.all == nil {
			s.all = map[string]*look{}
		}
		for other, old := range s.all {
			if time.Since(old.began) > keepLooks {
				delete(s.all, other)
			}
		}
		l = &look{done: make(chan struct{}), began: time.Now()}
		s.all[name] = l
		go func() {
			defer close(l.done)
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTime)
			defer cancel()
			l.value, l.err = see(ctx)
		}()
	}
	s.mu.Unlock()
	var none T
	select {
	case <-l.done:
		if l.err != nil {
			return none, l.err
		}
		return l.value.(T), nil
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// refreshed is the snapshot, after all processes of troupe have published what is so now, once a second
// for all pages. A read-only dashboard does not ask: that writes.
func (r *request) refreshed() (*snapshot, error) {
	s, err := r.snapshot()
	if err != nil || r.options.ReadOnly {
		return s, err
	}
	_, err = together(r.Context(), &r.looks, "refreshed", time.Second, func(ctx context.Context) (bool, error) {
		return r.fleet.Refresh(ctx, s.Processes)
	})
	return s, err
}
