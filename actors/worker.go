package actors

import (
	"runtime"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/troupehq/troupe/actors/internal/run"
	"github.com/troupehq/troupe/actors/internal/work"
	"github.com/troupehq/troupe/internal/osproc"
	"github.com/troupehq/troupe/internal/runs"
	"github.com/troupehq/troupe/supervisor"
)

// worker is the goroutine of a slot: it takes a job from the inbox, runs it,
// and takes the next. It is owned by the processor, which starts and stops it. A job
// cannot be stopped; so a worker whose processor restarts runs its job to the end, and
// the next incarnation of the processor adopts it.
type worker struct {
	p     *pool
	s     *slot
	woken chan struct{}

	// Guarded by capsule.mu:
	job     *work.Item // the first of a call
	calls   bool       // it makes a call for many jobs
	stopped bool       // it takes no job any more

	// Of its goroutine alone:
	asked time.Duration // the pause that its job has asked for
	pause time.Duration // it is to pause for so long after its job
}

// wakeLocked wakes an idle worker, which looks for a job.
func (k *worker) wakeLocked() {
	k.p.waking++
	k.woken <- struct{}{} // it has room: the worker is idle
}

// stopLocked ends the wait for a job.
func (k *worker) stopLocked() {
	k.stopped = true
	if i := slices.Index(k.p.idle, k); i >= 0 {
		k.p.idle = slices.Delete(k.p.idle, i, i+1)
		k.wakeLocked()
	}
}

func (k *worker) loop() {
	defer k.leave()
	pprof.SetGoroutineLabels(k.s.labels)
	for now := (time.Time{}); ; {
		w, call := k.next(&now)
		var again bool
		switch {
		case call != nil:
			again = call.Execute()
			now = time.Time{}
		case w != nil:
			now, again = k.p.c.runs.Execute(w, k, now)
		default:
			return
		}
		if k.rest() {
			now = time.Time{}
		}
		if !again {
			return
		}
	}
}

// next returns the next job or the next call that is due, and waits for it; nil when the worker is to end. The job
// that the worker had is over.
func (k *worker) next(now *time.Time) (*work.Item, *run.Call) {
	p, c := k.p, k.p.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if call := p.nextCallLocked(k); call != nil {
			k.job, k.calls = call.First().Item(), true
			p.running++
			p.busy.Add(1)
			p.wakeLocked()
			return nil, call
		}
		if k.stopped {
			k.releaseLocked() // under the same lock as attachLocked, which else adopts it
			return nil, nil
		}
		if len(p.inbox) > 0 {
			if now.IsZero() {
				*now = time.Now()
			}
			w := p.inbox[0]
			if w.Age(*now) > c.maxAge {
				old := p.emptyLocked()
				c.mu.Unlock()
				c.takeBack(old) // which tells whether they are still ours
				c.mu.Lock()
				continue
			}
			p.inbox[0] = nil
			p.inbox = p.inbox[1:]
			if !c.ledger.IsOpen(w) { // taken from this process while it waited
				continue
			}
			k.job = w
			p.running++
			p.begun++
			w.Sampled = p.begun%runs.SampleEvery == 1
			p.busy.Add(1)
			p.wakeLocked()
			return w, nil
		}
		c.intake.neededLocked()
		p.idle = append(p.idle, k)
		c.mu.Unlock()
		<-k.woken
		osproc.AwaitTurn(c.env.Identity, k.s.path)
		*now = time.Time{}
		c.mu.Lock()
		p.waking--
	}
}

// rest pauses after a job, as Capsule.Rest or the job says. It tells whether it has.
func (k *worker) rest() bool {
	if k.pause <= 0 {
		return false
	}
	t := time.NewTimer(k.pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-k.p.rested:
	}
	k.p.c.mu.Lock()
	defer k.p.c.mu.Unlock()
	k.pause = 0
	k.p.resting--
	return true
}

// releaseLocked gives up the slot.
func (k *worker) releaseLocked() {
	if k.s.worker == k {
		k.s.worker = nil
		k.p.workers--
	}
	k.p.wakeLocked() // it may have been woken for a job
	k.p.c.intake.wakeLocked()
}

// leave is called at the end of the goroutine. It wakes the processor, which then does nothing, crashes because the
// job panicked, starts another worker, or ends.
func (k *worker) leave() {
	c := k.p.c
	c.mu.Lock()
	k.releaseLocked()
	k.s.box.Wake()
	c.mu.Unlock()
	c.env.Changes.Wake()
}

// Path implements run.Slot.
func (k *worker) Path() string { return k.s.path }

// Runs implements run.Slot.
func (k *worker) Runs() *runs.Counts { return k.s.runs }

// Finish implements run.Slot.
func (k *worker) Finish(ack *work.Item, crash *supervisor.JobCrash, now time.Time) (yielded bool) {
	p, c := k.p, k.p.c
	if ack != nil {
		c.settler.Ack(ack)
	}
	c.mu.Lock()
	k.job, k.calls = nil, false
	p.running--
	k.pause, k.asked = max(c.cfg.Rest, k.asked), 0
	if k.pause > 0 {
		p.resting++
	}
	p.busy.Add(-1)
	if crash != nil && k.s.attached {
		k.s.crash = crash
	}
	woken := c.intake.jobEndedLocked(now)
	c.mu.Unlock()
	if woken {
		runtime.Gosched() // jobs that never block would keep it waiting until none is left
	}
	c.env.Changes.Wake()
	return woken
}

// Pause implements run.Slot.
func (k *worker) Pause(d time.Duration) { k.asked = d }

// Replace implements run.Slot.
func (k *worker) Replace() {
	c := k.p.c
	c.mu.Lock()
	defer c.mu.Unlock()
	k.replaceLocked()
}

func (k *worker) replaceLocked() {
	k.p.running--
	k.stopped = true
	k.releaseLocked()
	if k.s.attached {
		k.p.attachLocked(k.s)
	}
}

// Left implements run.Slot.
func (k *worker) Left() {
	p, c := k.p, k.p.c
	c.mu.Lock()
	defer c.mu.Unlock()
	class := p.left[k]
	if class == nil {
		p.busy.Add(-1)
		return
	}
	delete(p.left, k)
	p.count[class]--
	c.env.Changes.Wake()
}
