package fetch

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// popTime is the longest BRPOP, as Sidekiq's.
const popTime = 2 * time.Second

// pop is one BRPOP. It is never broken off, since Redis may have popped
// already; all who wait share it.
type pop struct {
	done    chan struct{} // closed when what it got is in the stash, or put back
	got     bool
	err     error
	waiting int
	quit    bool // the last who waited was called away
}

// Wait blocks in one BRPOP over all queues, in the order that the next fetch
// would draw. It returns early when ctx or d ends; the pop goes on for at most
// two seconds, and what it gets is kept for the next Take, or put back at once
// if ctx ended: then it may be that nobody fetches any more. It ends after
// lookTime in any case, since a Take finds out which queues are paused.
func (f *basic) Wait(ctx context.Context, d time.Duration) error {
	d = min(d, lookTime)
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	for deadline := time.Now().Add(d); ; {
		p, err := f.join(time.Until(deadline))
		if p == nil || err != nil { // something is there already, or the fetcher is closed
			return err
		}
		select {
		case <-p.done:
			f.part(p, false)
			if p.err != nil || p.got {
				return p.err
			} // else it was begun by a shorter Wait
		case <-timer.C:
			f.part(p, false)
			return nil
		case <-ctx.Done():
			f.part(p, true)
			return ctx.Err()
		}
	}
}

// join returns the pop under way, or begins one.
func (f *basic) join(d time.Duration) (*pop, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, errClosed
	}
	if len(f.stash) > 0 {
		return nil, nil
	}
	if f.pop == nil {
		f.pop = &pop{done: make(chan struct{})}
		go f.run(f.pop, f.order(), min(d, popTime))
	}
	f.pop.waiting++
	f.pop.quit = false
	return f.pop, nil
}

// order draws the order of the queues for a BRPOP, without those that the last
// Take found paused and those whose key had the wrong type a moment ago: one of
// them fails the whole command. A Take sends back what comes from a queue that
// was paused since.
func (f *basic) order() []string {
	var order []string
	now := time.Now()
	for _, want := range f.wants(1, f.rand) {
		if !now.Before(f.resume[want.Queue]) && !slices.Contains(f.paused, want.Queue) {
			order = append(order, keys.Queue(want.Queue))
		}
	}
	return order
}

// part leaves a pop. The last one to be called away has put back what it gets.
func (f *basic) part(p *pop, away bool) {
	f.mu.Lock()
	p.waiting--
	p.quit = away && p.waiting == 0
	late := p.quit && f.pop != p // it is over; else run does it
	f.mu.Unlock()
	if late {
		_ = f.putBack(context.Background()) // else Close tries again, and reports
	}
}

// run carries out p.
func (f *basic) run(p *pop, order []string, d time.Duration) {
	got, err := f.brpop(order, d)
	f.mu.Lock()
	if len(got) == 2 {
		queue := strings.TrimPrefix(got[0], keys.Queue(""))
		f.stash = append(f.stash, Unit{Queue: queue, Payload: bytesOf(got[1]), Incarnation: 1})
	}
	p.got, p.err = len(got) == 2, err
	quit := p.quit
	f.mu.Unlock()
	if quit {
		_ = f.putBack(context.Background()) // else Close tries again, and reports
	}
	f.mu.Lock()
	f.pop = nil
	f.mu.Unlock()
	close(p.done)
}

// brpop blocks for d, rounded up to a second as Redis clients count here.
func (f *basic) brpop(order []string, d time.Duration) ([]string, error) {
	if len(order) == 0 { // every queue is paused, or its key has the wrong type
		time.Sleep(d)
		return nil, nil
	}
	ctx := context.Background()
	got, err := f.rdb.BRPop(ctx, max(d+time.Second-1, time.Second).Truncate(time.Second), order...).Result()
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		err = f.diagnose(ctx, order)
	}
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return got, err
}

// diagnose finds the queues whose key is not a list and leaves them out for a while.
func (f *basic) diagnose(ctx context.Context, order []string) error {
	for _, key := range order {
		kind, err := f.rdb.Type(ctx, key).Result()
		if err != nil {
			return err
		}
		if kind == "list" || kind == "none" {
			continue
		}
		name := strings.TrimPrefix(key, keys.Queue(""))
		f.sick.report(name, key+" is a "+kind+", expected a list")
		f.mu.Lock()
		f.resume[name] = time.Now().Add(sickTime)
		f.mu.Unlock()
	}
	return nil
}
