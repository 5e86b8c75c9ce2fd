package actors

import (
	"context"
	"runtime"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/actors/internal/work"
	"github.com/troupehq/troupe/internal/osproc"
	"github.com/troupehq/troupe/internal/runs"
	"github.com/troupehq/troupe/supervisor"
)

// slot is one of the Concurrency of a capsule. Its processor and its worker come and
// go. All fields are guarded by capsule.mu.
type slot struct {
	index    int
	path     string              // of the processor
	labels   context.Context     // of the worker's goroutine
	box      *supervised.Mailbox // of the processor; nil before its first start
	attached bool                // the processor is started and not stopping: its worker may take jobs
	worker   *worker             // nil if no goroutine is at work
	crash    *supervisor.JobCrash
	absent   bool         // there is no processor: it was never started, or has ended since the slot was retired
	retired  bool         // the capsule has fewer processors by now
	runs     *runs.Counts // does not change
}

// worker is the goroutine of a slot: it takes a job from the capsule's inbox, runs it,
// and takes the next. It is owned by the processor, which starts and stops it. A job
// cannot be stopped; so a worker whose processor restarts runs its job to the end, and
// the next incarnation of the processor adopts it.
type worker struct {
	c     *capsule
	s     *slot
	woken chan struct{}

	// Guarded by capsule.mu:
	job     *work.Item
	stopped bool // it takes no job any more
	rests   bool // it is to pause after its job
}

// wakeLimit is how many workers are woken at a time: several where there are many
// processors, since each of them takes some microseconds to wake the next.
func wakeLimit() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// wakeNext wakes idle workers for what waits, one or a few at a time: each that begins
// a job has the next woken. So jobs that block wake worker after worker, and jobs that
// do not are run by the few that the machine has room for. c.mu is held.
func (c *capsule) wakeNext() {
	for len(c.inbox) > c.waking && len(c.idle) > 0 && c.waking < wakeLimit() {
		last := len(c.idle) - 1
		c.idle[last].wake()
		c.idle = c.idle[:last]
	}
}

// wake has an idle worker look for a job. c.mu is held.
func (k *worker) wake() {
	k.c.waking++
	k.woken <- struct{}{} // it has room: the worker is idle
}

// attach has the worker of slot s take jobs: the one that is there, or a new one.
// c.mu is held.
func (c *capsule) attach(s *slot) {
	if c.quiet || s.retired || s.crash != nil || s.box.Keeps() {
		return
	}
	s.attached = true
	if s.worker != nil {
		s.worker.stopped = false
		return
	}
	k := &worker{c: c, s: s, woken: make(chan struct{}, 1)}
	s.worker = k
	c.workers++
	osproc.Go(c.env.Identity, s.path, k.loop)
	c.wakeFetch()
}

// detach has the worker of slot i take no job any more.
func (c *capsule) detach(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.slots[i]
	s.attached = false
	if s.worker != nil {
		s.worker.stop()
	}
}

// stop ends the wait for a job. c.mu is held.
func (k *worker) stop() {
	k.stopped = true
	if i := slices.Index(k.c.idle, k); i >= 0 {
		k.c.idle = slices.Delete(k.c.idle, i, i+1)
		k.wake()
	}
}

func (k *worker) loop() {
	defer k.leave()
	supervised.Deepen()
	pprof.SetGoroutineLabels(k.s.labels)
	for now := (time.Time{}); ; {
		w := k.next(&now)
		if w == nil {
			return
		}
		var again bool
		now, again = k.c.runs.Execute(w, k, now)
		if k.rest() {
			now = time.Time{}
		}
		if !again {
			return
		}
	}
}

// next returns the next job, and waits for it; nil when the worker is to end. The job
// that the worker had is over.
func (k *worker) next(now *time.Time) *work.Item {
	c := k.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if k.stopped {
			k.release() // under the same lock as attach, which else adopts it
			return nil
		}
		if len(c.inbox) > 0 {
			if now.IsZero() {
				*now = time.Now()
			}
			w := c.inbox[0]
			if w.Age(*now) > c.maxAge {
				back := c.inbox
				c.inbox = nil
				c.mu.Unlock()
				c.takeBack(back) // which tells whether they are still ours
				c.mu.Lock()
				continue
			}
			c.inbox[0] = nil
			c.inbox = c.inbox[1:]
			if !c.ledger.IsOpen(w) { // taken from this process while it waited
				continue
			}
			k.job = w
			c.running++
			c.begun++
			w.Sampled = c.begun%runs.SampleEvery == 1
			c.busy.Add(1)
			c.wakeNext()
			return w
		}
		if c.asleep != nil && (c.due() || c.waitDue()) {
			c.wakeFetch()
		}
		c.idle = append(c.idle, k)
		c.mu.Unlock()
		<-k.woken
		osproc.AwaitTurn(c.env.Identity, k.s.path)
		supervised.Deepen()
		*now = time.Time{}
		c.mu.Lock()
		c.waking--
	}
}

// rest pauses after a job, as Capsule.Rest says. It tells whether it has.
func (k *worker) rest() bool {
	c := k.c
	if c.cfg.Rest <= 0 {
		return false
	}
	c.mu.Lock()
	rests := k.rests
	c.mu.Unlock()
	if !rests {
		return false
	}
	t := time.NewTimer(c.cfg.Rest)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.rested:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k.rests = false
	c.resting--
	return true
}

// release gives up the slot. c.mu is held.
func (k *worker) release() {
	if k.s.worker == k {
		k.s.worker = nil
		k.c.workers--
	}
	k.c.wakeNext() // it may have been woken for a job
	k.c.wakeFetch()
}

// leave is the end of the goroutine. The processor looks what is to be done: nothing,
// to crash of what the job has left, to start another worker, or to end.
func (k *worker) leave() {
	k.c.mu.Lock()
	k.release()
	k.s.box.Wake()
	k.c.mu.Unlock()
	k.c.env.Changes.Wake()
}

// Path implements run.Slot.
func (k *worker) Path() string { return k.s.path }

// Runs implements run.Slot.
func (k *worker) Runs() *runs.Counts { return k.s.runs }

// Finish implements run.Slot.
func (k *worker) Finish(ack *work.Item, crash *supervisor.JobCrash, now time.Time) (yielded bool) {
	c := k.c
	c.mu.Lock()
	if ack != nil {
		c.settler.Acked(ack)
	}
	k.job = nil
	c.running--
	c.found = true
	if c.cfg.Rest > 0 {
		k.rests = true
		c.resting++
	}
	c.busy.Add(-1)
	c.ahead.Ended(now)
	if crash != nil && k.s.attached {
		k.s.crash = crash
	}
	woken := c.asleep != nil && c.due() && c.wakeFetch()
	c.mu.Unlock()
	if woken {
		runtime.Gosched() // jobs that never block would keep it waiting until none is left
	}
	c.env.Changes.Wake()
	return woken
}

// Replace implements run.Slot.
func (k *worker) Replace() {
	c := k.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	k.stopped = true
	k.release()
	if k.s.attached {
		c.attach(k.s)
	}
}

// Left implements run.Slot.
func (k *worker) Left() { k.c.busy.Add(-1) }
