package actors

import (
	"time"

	"github.com/troupehq/troupe/actors/internal/run"
	"github.com/troupehq/troupe/actors/internal/work"
)

// collecting is the part of a pool that collects jobs for the calls of troupe.HandleMany. A job that is collected leaves its
// slot: its goroutine waits, and a new worker takes the next job. A call that is due has a slot: the next worker
// that looks for a job makes it. Its fields are guarded by capsule.mu.
type collecting struct {
	open  map[*run.Class]*run.Call
	due   []*run.Call            // the oldest first
	left  map[*worker]*run.Class // whose jobs, of these classes, have left their slots, and are not over
	count map[*run.Class]int     // of these
}

// Collect implements run.Slot.
func (k *worker) Collect(m *run.Member, leave bool) {
	p, c, class := k.p, k.p.c, m.Class()
	c.env.Changes.Await(c.env.Settling, func() bool { return p.mayCollect(class) })
	c.mu.Lock()
	defer c.mu.Unlock()
	p.collectLocked(m)
	if !leave {
		return
	}
	p.left[k] = class
	p.count[class]++
	p.busy.Add(-1)
	k.replaceLocked()
	c.intake.jobEndedLocked(time.Now())
}

// mayCollect bounds the jobs that have left their slots. They are at most twice as many as fit into the call that is collected and
// one call for each processor: once for the calls, and once for outcomes that are on their way.
func (p *pool) mayCollect(class *run.Class) bool {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	return p.count[class] < 2*(p.c.cfg.Concurrency+1)*class.Collect().Max
}

// collectLocked adds m to the open call of its class, or to a call of its own.
func (p *pool) collectLocked(m *run.Member) {
	class := m.Class()
	if m.Alone() {
		p.closeCallLocked(class)
	}
	call := p.open[class]
	if call == nil {
		call = run.NewCall()
		p.open[class] = call
		timer := time.AfterFunc(class.Collect().Wait, func() {
			p.c.mu.Lock()
			defer p.c.mu.Unlock()
			if p.open[class] == call {
				p.closeCallLocked(class)
			}
		})
		call.Stop = func() { timer.Stop() }
	}
	if n := call.Add(m); n >= class.Collect().Max || m.Alone() || p.c.quiet || p.c.intake.excluded {
		p.closeCallLocked(class)
	}
}

// closeCallLocked closes the open call of a class, if there is one: the next worker makes it.
func (p *pool) closeCallLocked(class *run.Class) {
	call := p.open[class]
	if call == nil {
		return
	}
	delete(p.open, class)
	call.Stop()
	p.due = append(p.due, call)
	for _, s := range p.slots { // in a quiet capsule there may be none
		if p.c.quiet && s.attached && s.worker == nil {
			p.attachLocked(s)
		}
	}
	p.wakeLocked()
}

// flushLocked closes all open calls.
func (p *pool) flushLocked() {
	for class := range p.open {
		p.closeCallLocked(class)
	}
}

// nextCallLocked is the call that k is to make next; nil for none.
func (p *pool) nextCallLocked(k *worker) *run.Call {
	for len(p.due) > 0 {
		call := p.due[0]
		p.due[0] = nil
		p.due = p.due[1:]
		if call.Begin(k) {
			return call
		}
	}
	return nil
}

// collectedJobs returns the number of jobs that have left their slots and are not settled.
func (p *pool) collectedJobs() int64 {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	return int64(len(p.left))
}

// inHand is a running job.
type inHand struct {
	*work.Item
	slot *slot // in which it began
	left bool  // it was collected
}

// inHand are the jobs that run, collected ones, too.
func (p *pool) inHand() (all []inHand) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	for _, s := range p.slots {
		if k := s.worker; k != nil && k.job != nil && !k.calls {
			all = append(all, inHand{k.job, s, false})
		}
	}
	for k := range p.left {
		all = append(all, inHand{k.job, k.s, true})
	}
	return all
}
