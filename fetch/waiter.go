package fetch

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/jitter"
	"github.com/troupehq/troupe/internal/osproc"
	"github.com/troupehq/troupe/internal/redisconn"
)

const (
	shortWait = 1500 * time.Millisecond // a blocked move waits at least so long
	longWait  = 2500 * time.Millisecond // and at most; both are bounded by the lease
)

// waiter makes blocked moves from one queue into its waiting list, one after the other,
// by a connection of its own. A push itself moves the job and wakes one process.
type waiter struct {
	in    *incarnation
	p     *index
	queue int // of fetcher.names
	list  *list

	// Guarded by fetcher.mu:
	client   *redis.Client // of the connection
	node     *redis.Client // what it was made of
	number   int64         // by which Redis can be asked to end its wait
	gone     bool          // there will be none any more
	open     bool          // a move is under way
	ending   bool          // and was asked to end
	busy     bool          // no move may begin: somebody else compares the list
	next     time.Time     // when the list is to be compared; zero: before the next move
	again    time.Time     // compare at this time, too: a move may come late
	pause    time.Time     // no move before this time
	healthy  bool          // the last move or comparison was answered
	failures int           // in a row
	away     error         // why Redis cannot be reached
}

// run goes on until the incarnation or the fetcher ends.
func (w *waiter) run() {
	f, ctx := w.in.f, context.Background()
	f.mu.Lock()
	defer f.mu.Unlock()
	for w.in == f.cur && !f.closing {
		switch at := w.dueLocked(); {
		case !at.After(time.Now()):
			f.mu.unlocked(func() { w.check(ctx) })
		case w.mayLocked():
			d := w.waitTime()
			w.open = true
			f.mu.unlocked(func() { w.move(ctx, d) })
		default:
			w.sleepLocked(at)
		}
	}
	f.mu.unlocked(func() { w.cut(true) })
	f.running--
	f.wakeLocked()
}

// dueLocked is when the list is to be compared next: after what went wrong, and as often as
// the lease is renewed.
func (w *waiter) dueLocked() time.Time {
	if w.next.Before(w.pause) {
		return w.pause
	}
	return w.next
}

// mayLocked reports whether a blocked move may begin now. Somebody must wait, and not just until a Take has
// returned jobs that are in hand: a move would bring the next job past them. Nobody may read the list, and no job of
// the queue may be on its way back, since the move would get it again. The move must end long before the lease.
func (w *waiter) mayLocked() bool {
	f := w.in.f
	return f.waits > 0 && !f.readyLocked(w.in) && !w.busy && f.giving[f.set.Load().names[w.queue]] == 0 && !f.paused[w.queue] && !f.set.Load().former[w.queue] && !w.pause.After(time.Now()) && f.renewed.age() < f.mayWait()
}

// mayWait is how old a renewal may be for a wait to begin: it ends two thirds of the
// lease after the renewal, if it is not on its way for long.
func (f *fetcher) mayWait() time.Duration { return f.env.Lease*2/3 - f.longest() }

func (f *fetcher) longest() time.Duration { return min(longWait, f.env.Lease/3) }

// waitTime is how long the next move waits. Redis serves the client that has blocked for the longest, and Ruby
// blocks anew every 2 s: with equal times the same side would be first each time.
func (w *waiter) waitTime() time.Duration {
	longest := w.in.f.longest()
	shortest := min(shortWait, longest*3/5)
	return shortest + w.random(longest-shortest+1)
}

// random is a time below d, drawn by this waiter alone: which of several comes first does not
// change it.
func (w *waiter) random(d time.Duration) time.Duration {
	return time.Duration(jitter.Rand(w.in.f.env.Identity, w.list.key).Int64N(int64(d)))
}

// sleepLocked waits for a change, or until something is due.
func (w *waiter) sleepLocked(at time.Time) {
	f := w.in.f
	if w.pause.After(time.Now()) && w.pause.Before(at) {
		at = w.pause
	}
	changed, t := f.changed, time.NewTimer(max(time.Until(at), time.Millisecond))
	defer t.Stop()
	f.mu.unlocked(func() {
		select {
		case <-changed:
		case <-t.C:
		}
	})
}

// move is one blocked move.
func (w *waiter) move(ctx context.Context, d time.Duration) {
	f := w.in.f
	text, err := w.blmove(ctx, d)
	f.mu.Lock()
	defer f.mu.Unlock()
	w.open, w.ending = false, false
	if err == nil || errors.Is(err, redis.Nil) {
		w.healthy, w.failures, w.away = true, 0, nil
	} else {
		w.failedLocked(err)
		w.list.lost = w.list.lost || !redisconn.IsReply(err)
		w.again = time.Now().Add(d)
	}
	if err == nil && w.in == f.cur { // else it is not ours any more: a rescuer has put it back
		w.list.addLocked(w.in, text)
	}
	f.wakeLocked()
	f.endUnwantedSoonLocked()
}

// failedLocked notes an error: the list must be compared, and not too soon be waited again.
func (w *waiter) failedLocked(err error) {
	w.next, w.healthy = time.Time{}, false
	pause := soonTime << min(w.failures, 3) // takes go on at soonTime
	w.pause = time.Now().Add(pause + w.random(pause/4))
	w.failures++
	w.away = err
	if redisconn.IsReply(err) {
		w.away = nil
	}
	if redisconn.HasPrefix(err, "WRONGTYPE") {
		w.in.f.faulty.report(w.in.f.set.Load().names[w.queue], err.Error())
	}
}

// check compares the waiting list with what is in hand; no move is under way.
func (w *waiter) check(ctx context.Context) {
	f := w.in.f
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := w.p.withCallLock(ctx, func() error {
		if err := w.p.ready(ctx); err != nil {
			return err
		}
		err := w.p.check(ctx, w.list, f.rdb.LLen(ctx, w.list.key))
		w.p.doubt = w.p.doubt && err != nil
		return err
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		w.failedLocked(err)
	} else {
		now := time.Now()
		w.next, w.healthy, w.failures, w.away = now.Add(f.env.Lease/3), true, 0, nil
		if w.again.After(now) && w.again.Before(w.next) {
			w.next = w.again
		}
	}
	f.wakeLocked()
}

// endLocked asks Redis to endLocked the move that is under way, again while it has not come to Redis yet.
// Without the right to do so it runs out: a connection that is cut might leave it to come late,
// and the list closed for a day.
func (w *waiter) endLocked() {
	if w.ending {
		return
	}
	w.ending = true
	osproc.Go(w.in.f.env.Identity, "end of "+w.list.key, func() {
		ctx, cancel := context.WithTimeout(context.Background(), endTime)
		defer cancel()
		for pause := graceTime; !w.ended(ctx); pause *= 2 {
			w.in.f.mu.Lock()
			for at := time.Now().Add(pause); w.open && w.ending && time.Now().Before(at); {
				w.sleepLocked(at)
			}
			w.in.f.mu.Unlock()
		}
	})
}

// ended asks Redis once, and tells whether that was enough.
func (w *waiter) ended(ctx context.Context) bool {
	f := w.in.f
	f.mu.Lock()
	id, node, open := w.number, w.node, w.open && w.ending
	f.mu.Unlock()
	if !open || ctx.Err() != nil {
		return true
	}
	if id == 0 || node == nil { // it is connecting
		return false
	}
	ended, err := node.Do(ctx, "client", "unblock", strconv.FormatInt(id, 10)).Int()
	f.mu.Lock()
	away := w.open && w.ending && err != nil && !redisconn.IsReply(err)
	f.mu.Unlock()
	if away {
		w.cut(false)
	}
	return err != nil || ended == 1
}
