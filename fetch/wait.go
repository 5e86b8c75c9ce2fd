package fetch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/troupehq/troupe/internal/osproc"
)

const (
	lookTime  = 2 * time.Second        // a Wait ends after it: a take reads the fence and `paused`
	soonTime  = 500 * time.Millisecond // likewise, while a queue is not waited for
	graceTime = 10 * time.Millisecond  // waits stay open so long without a Wait
)

// waiting says whether somebody waits. Guarded by fetcher.mu.
type waiting struct {
	waits    int           // calls of Wait
	takes    int           // and of Take
	changed  chan struct{} // closed and made anew when anything changes
	endTimer *time.Timer
	running  int            // waiters
	giving   map[string]int // queues -> calls under way that give jobs back to them
	ending   bool           // giveBack is under way
}

// wakeLocked tells all who wait that something has changed.
func (f *fetcher) wakeLocked() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// pauseLocked notes whether a queue was found paused: then it is not waited for.
func (f *fetcher) pauseLocked(queue int, paused bool) {
	if f.paused[queue] == paused {
		return
	}
	f.paused[queue] = paused
	for _, w := range f.cur.waiters {
		if paused && w.open && w.queue == queue {
			w.endLocked()
		}
	}
	f.wakeLocked()
}

// Wait waits until a blocked move has brought a job; see Fetcher. It ends early
// for a Take that reads what is paused.
func (f *fetcher) Wait(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	in, err := f.current()
	if err != nil {
		return fmt.Errorf("wait: %w", err)
	}
	if d <= 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closing {
		return fmt.Errorf("wait: %w", errClosed)
	}
	f.waits++
	f.startLocked(in)
	f.wakeLocked()
	defer f.endWaitLocked()
	timer := time.NewTimer(min(d, lookTime))
	defer timer.Stop()
	for begun, ended := time.Now(), false; !ended; {
		if f.readyLocked(in) || f.cur != in || f.closing {
			return nil
		}
		if err := in.failedLocked(); err != nil {
			return fmt.Errorf("wait: %w", err)
		}
		if !in.waitedForLocked() { // what is not waited for is looked at
			timer.Reset(max(0, min(d, soonTime)-time.Since(begun)))
		}
		changed := f.changed
		f.mu.unlocked(func() {
			select {
			case <-changed:
			case <-timer.C:
				ended = true
			case <-ctx.Done():
				ended = true
			}
		})
	}
	return ctx.Err()
}

// readyLocked tells whether a Take would find something in hand.
func (f *fetcher) readyLocked(in *incarnation) bool {
	return f.cur == in && slices.ContainsFunc(f.stash, func(u Unit) bool { return f.startableLocked(&u, false) })
}

// endWaitLocked is the end of a Wait. When no other begins, the waits that are open end soon. f.mu
// is held.
func (f *fetcher) endWaitLocked() {
	f.waits--
	f.endUnwantedSoonLocked()
}

// endUnwantedSoonLocked sees to it that nothing stays open or in hand that nobody wants.
func (f *fetcher) endUnwantedSoonLocked() {
	switch {
	case f.waits > 0 || f.closing:
	case f.endTimer == nil:
		f.endTimer = time.AfterFunc(graceTime, f.endUnwanted)
	default:
		f.endTimer.Reset(graceTime)
	}
}

// endUnwanted ends the waits that nobody wants any more. What they brought goes back.
func (f *fetcher) endUnwanted() {
	f.mu.Lock()
	defer f.mu.Unlock()
	in := f.cur
	if f.waits > 0 || f.closing || in.endMovesLocked() || f.takes > 0 || len(f.stash) == 0 || f.ending {
		return
	}
	f.ending = true
	osproc.Go(f.env.Identity, "give back of "+f.env.Capsule, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = f.giveBack(ctx, in)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.ending = false
		f.wakeLocked()
	})
}

// endMovesLocked ends the moves that are under way, and tells whether there are any.
func (in *incarnation) endMovesLocked() (open bool) {
	for _, w := range in.waiters {
		if w.open {
			open = true
			w.endLocked()
		}
	}
	return open
}

// giveBack puts what nobody has taken back into its queues: other processes wait.
func (f *fetcher) giveBack(ctx context.Context, in *incarnation) error {
	f.mu.Lock()
	var units []Unit
	if f.cur == in && (f.waits+f.takes == 0 || f.closing) {
		units, f.stash = f.stash, nil
	}
	f.mu.Unlock()
	_, err := f.settle(ctx, in, backToQueue(units))
	if err != nil {
		in.forgetUnits(units)
	}
	return err
}

// forgetUnits forgets units that may have been given back: the comparison of their lists tells.
func (in *incarnation) forgetUnits(units []Unit) {
	f := in.f
	by := f.byIndex(in, units)
	for _, p := range in.indexes {
		some := by[p]
		_ = p.withCallLock(context.Background(), func() error {
			f.mu.Lock()
			defer f.mu.Unlock()
			for i := range some {
				if l, n, ok := p.lookupLocked(&some[i]); ok {
					l.mustRead = true
					p.dropLocked(l, n)
					p.doubt = true
				}
			}
			return nil
		})
	}
}

// startLocked starts the waiters of an incarnation.
func (f *fetcher) startLocked(in *incarnation) {
	if in.started || f.cur != in || f.closing {
		return
	}
	in.started = true
	f.runLocked(in.waiters)
}

// waitedForLocked tells whether all queues are: none is beyond those that may, or has failed.
func (in *incarnation) waitedForLocked() bool {
	set := in.f.set.Load()
	served := maps.Clone(set.former)
	for _, w := range in.waiters {
		if w.healthy || in.f.paused[w.queue] {
			served[w.queue] = true
		}
	}
	return len(served) == len(set.names)
}

// failedLocked is why Redis cannot be reached, if that is so.
func (in *incarnation) failedLocked() error {
	for _, w := range in.waiters {
		if w.away != nil {
			return w.away
		}
	}
	return nil
}
