package actors

import (
	"context"
	"time"

	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/actors/internal/work"
	"github.com/troupehq/troupe/internal/osproc"
)

// waitTime is the longest that an idle capsule waits between two looks at its
// queues, whatever woke it or not; a fetcher that has to look more often ends the
// wait sooner.
const waitTime = 5 * time.Minute

// takeLimit is what any fetcher can return from one Take, if there is so much.
const takeLimit = 1000

// intake is the part of a capsule that fetches: what, when, and how much. All takes and waits
// of a capsule are made by its goroutine, one at a time. Its fields are guarded by capsule.mu.
type intake struct {
	c        *capsule
	box      *supervised.Mailbox // of the fetcher
	up       bool                // the fetcher is started and not stopping
	alive    bool                // the goroutine lives
	excluded bool                // nothing is fetched: a suspect runs, or is about to
	opened   bool                // the fetcher is registered
	answered bool                // a Take has succeeded
	fenced   time.Time           // since then, and no Take has succeeded
	calling  bool                // a Take or a Wait is under way
	callDue  time.Time           // that is to be over by then
	taking   bool                // a Take is
	ackDue   bool                // acks have waited long enough
	drained  bool                // the last Take found less than it asked for
	asleep   chan struct{}       // closed to wake the goroutine; nil while it is awake
	endWait  context.CancelFunc  // of the Wait that is under way
	failures int                 // consecutive failed calls
	retryAt  time.Time           // no call before
	ahead    work.LookAhead
	limiting
}

// step is what the goroutine does next.
type step struct {
	do    doing
	until time.Time       // of sleep; zero is until it is woken
	woken chan struct{}   // of sleep
	ctx   context.Context // of wait
	most  time.Duration   // of wait
	want  int             // of take
	late  []*work.Item    // of giveBack
	limit string          // of reach
}

type doing int

const (
	sleep    doing = iota // until something has changed
	take                  // one Take
	wait                  // one Wait
	giveBack              // what has waited too long for a worker
	reach                 // a limit
	end                   // the goroutine
)

// started has the goroutine fetch for a fetcher with this mailbox.
func (in *intake) started(box *supervised.Mailbox) {
	in.c.mu.Lock()
	defer in.c.mu.Unlock()
	in.box, in.up = box, true
}

// stopped has nothing fetched until a fetcher starts.
func (in *intake) stopped() {
	in.c.mu.Lock()
	defer in.c.mu.Unlock()
	in.up = false
}

// step wakes the goroutine, and starts it if there is none. It tells
// whether the fetcher is to end.
func (in *intake) step() (ended bool) {
	in.c.mu.Lock()
	defer in.c.mu.Unlock()
	if !in.alive {
		if in.c.quiet {
			return true
		}
		in.alive = true
		in.c.env.System.Spawn(in.c.path("fetcher"), in.loop)
	}
	in.wakeLocked()
	return false
}

// loop is the goroutine.
func (in *intake) loop() {
	c := in.c
	defer in.loopEnded()
	for {
		now := time.Now()
		in.weigh(now)
		switch s := in.next(now); s.do {
		case sleep:
			in.sleep(s)
		case take:
			in.take(s.want)
		case wait:
			in.wait(s)
		case giveBack:
			c.giveBackLate(s.late)
		case reach:
			c.reach(s.limit)
		case end:
			return
		}
	}
}

// next decides what the goroutine does next, and notes that it is done. Each Take begins here.
func (in *intake) next(now time.Time) step {
	c := in.c
	c.mu.Lock()
	defer c.mu.Unlock()
	late, limit := in.lateLocked(), in.limitLocked(now)
	switch {
	case c.quiet:
		return step{do: end}
	case limit != "":
		return step{do: reach, limit: limit}
	case !late.IsZero() && !now.Before(late):
		in.ahead.Stop(now)
		return step{do: giveBack, late: c.pool.emptyLocked()}
	case !in.mayCallLocked():
		return in.sleepLocked(late)
	case now.Before(in.retryAt):
		return in.sleepLocked(earlier(late, in.retryAt))
	case in.ackDue || in.takeDueLocked():
		want := in.withinLocked(in.ahead.Call(max(0, c.pool.freeLocked()+in.ahead.Units-len(c.pool.inbox))))
		in.calling, in.taking, in.ackDue, in.callDue = true, true, false, now
		return step{do: take, want: want}
	case in.waitDueLocked():
		ctx, cancel := context.WithCancel(context.Background())
		most := in.waitLimitLocked()
		in.calling, in.endWait, in.callDue = true, cancel, now.Add(most)
		return step{do: wait, ctx: ctx, most: most}
	}
	return in.sleepLocked(late)
}

// loopEnded also follows a panic, of a third party's fetcher say: then the fetcher
// crashes of it, and starts the goroutine anew.
func (in *intake) loopEnded() {
	v, c := recover(), in.c
	c.mu.Lock()
	in.endWaitLocked()
	in.alive, in.calling, in.taking, in.drained = false, false, false, false
	if v != nil || !c.quiet { // it may also have left the goroutine
		in.failedLocked("fetch")
	}
	c.mu.Unlock()
	if v != nil {
		c.env.System.Panicked(c.path("fetcher"), v)
		time.AfterFunc(time.Second, in.ringFetcher) // if the strategy resumes it
	}
	in.ringFetcher()
	c.env.Outage.Leave(c.path("fetcher"))
	c.env.Changes.Wake()
}

// mayCallLocked tells whether a call may begin.
func (in *intake) mayCallLocked() bool { return in.up && !in.excluded && !in.box.Keeps() }

// takeDueLocked tells whether a Take is to be made.
func (in *intake) takeDueLocked() bool {
	p, acks := &in.c.pool, in.c.settler.Acks()
	switch {
	case in.drained: // an idle capsule has nothing to batch its acks with
		return acks > 0 && p.running == 0
	case len(p.inbox) == 0 && p.freeLocked() > 0:
		return true
	case in.ahead.Units > 0 && len(p.inbox) <= in.ahead.Units/2:
		return true
	}
	return acks >= max(len(p.slots), in.ahead.Units)
}

// waitDueLocked tells whether a Wait is to be made: the queues are empty and a worker is free.
func (in *intake) waitDueLocked() bool {
	return in.drained && in.c.pool.freeLocked() > len(in.c.pool.inbox)
}

// sleepLocked has the goroutine sleep until something has changed, or until then; zero is never.
func (in *intake) sleepLocked(then time.Time) step {
	in.asleep = make(chan struct{})
	return step{do: sleep, until: then, woken: in.asleep}
}

func (in *intake) sleep(s step) {
	c := in.c
	if s.until.IsZero() {
		<-s.woken
	} else {
		t := time.NewTimer(time.Until(s.until))
		select {
		case <-s.woken:
		case <-t.C:
		}
		t.Stop()
		c.mu.Lock()
		in.asleep = nil
		c.mu.Unlock()
	}
	osproc.AwaitTurn(c.env.Identity, c.path("fetcher"))
}

// wakeLocked wakes the goroutine if it sleeps.
func (in *intake) wakeLocked() bool {
	if in.asleep == nil {
		return false
	}
	close(in.asleep)
	in.asleep = nil
	return true
}

// neededLocked wakes the goroutine if there is something for it to do, since a worker has no job.
func (in *intake) neededLocked() {
	if in.asleep != nil && (in.takeDueLocked() || in.waitDueLocked()) {
		in.wakeLocked()
	}
}

// jobEndedLocked notes that a job has ended. It tells whether the goroutine was woken to make a Take.
func (in *intake) jobEndedLocked(now time.Time) (woken bool) {
	in.found = true
	in.ahead.Ended(now)
	return in.asleep != nil && in.takeDueLocked() && in.wakeLocked()
}

// changedLocked wakes the goroutine, since its queues have changed, or nothing is fetched any
// more.
func (in *intake) changedLocked() {
	in.drained = false
	in.endWaitLocked()
	in.wakeLocked()
}

// endWaitLocked ends the Wait that is under way.
func (in *intake) endWaitLocked() {
	if in.endWait != nil {
		in.endWait()
	}
}

// exclude keeps the goroutine from fetching, or ends that.
func (in *intake) exclude(on bool) {
	in.c.mu.Lock()
	defer in.c.mu.Unlock()
	if in.excluded = on; on {
		in.c.pool.flushLocked()
	}
	in.wakeLocked()
}

// ringFetcher wakes the fetcher, which checks whether the goroutine lives.
func (in *intake) ringFetcher() {
	in.c.mu.Lock()
	defer in.c.mu.Unlock()
	in.box.Wake()
}

// carriesAcks tells whether a Take that carries the acks begins soon.
func (in *intake) carriesAcks() bool {
	in.c.mu.Lock()
	defer in.c.mu.Unlock()
	if in.taking {
		return true
	}
	if in.c.quiet || in.ackDue || in.calling || !in.mayCallLocked() || !in.retryAt.IsZero() {
		return false
	}
	in.ackDue = true
	in.wakeLocked()
	return true
}

// lateLocked returns when the oldest job in the inbox will have waited too long for a
// worker; zero if none waits.
func (in *intake) lateLocked() time.Time {
	if len(in.c.pool.inbox) == 0 {
		return time.Time{}
	}
	return in.c.pool.inbox[0].Fetched.Add(in.ahead.Patience())
}

// isTaking tells whether a Take is under way.
func (in *intake) isTaking() bool {
	in.c.mu.Lock()
	defer in.c.mu.Unlock()
	return in.taking
}

// earlier is the earlier of two times, of which a may be zero.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
