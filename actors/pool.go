package actors

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/troupehq/troupe/actors/internal/run"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/actors/internal/work"
	"github.com/troupehq/troupe/internal/osproc"
	"github.com/troupehq/troupe/internal/runs"
	"github.com/troupehq/troupe/supervisor"
)

// pool is the part of a capsule that runs jobs: the slots with their workers, and the
// inbox, in which fetched jobs wait for a worker. Its fields are guarded by capsule.mu.
type pool struct {
	c       *capsule
	slots   []*slot   // those there ever were: a retired one keeps its counts
	workers int       // those that have a slot
	running int       // those of them that have a job
	begun   int       // jobs
	idle    []*worker // those that wait for a job, but for those that are being woken
	waking  int
	inbox   []*work.Item  // the oldest first
	resting int           // workers that pause after a job
	rested  chan struct{} // closed when no pause is made any more
	collecting

	busy atomic.Int64 // goroutines that run a job
}

// slot is one of the Concurrency of a capsule. Its processor and its worker come and
// go. Its fields are guarded by capsule.mu.
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

// resizeLocked puts n slots into use, and ends the workers of the others.
func (p *pool) resizeLocked(n int) {
	for i := len(p.slots); i < n; i++ {
		path := p.c.path("processor-" + strconv.Itoa(i))
		p.slots = append(p.slots, &slot{index: i, path: path, labels: run.Labels(path), absent: true, runs: runs.NewCounts(1 + 2*len(p.c.runs.Classes))})
	}
	for i, s := range p.slots {
		if s.retired = i >= n; s.retired && s.worker != nil {
			s.worker.stopLocked()
		}
	}
}

// freeLocked is how many workers have neither a job nor a pause.
func (p *pool) freeLocked() int { return p.workers - p.running - p.resting }

// hasRoomLocked tells whether a job that is added has a worker.
func (p *pool) hasRoomLocked() bool { return p.running+len(p.inbox) < p.workers }

func (p *pool) hasRoom() bool {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	return p.hasRoomLocked()
}

// addLocked queues items to be run, in order. It returns false if no job starts any more: then the
// caller gives them back.
func (p *pool) addLocked(items []*work.Item) bool {
	if p.c.quiet || !p.c.ledger.Add(items) {
		p.c.ledger.Claim(items)
		return false
	}
	p.inbox = append(p.inbox, items...)
	p.wakeLocked()
	return true
}

// addOne is addLocked for one item, which has a worker at once: false if there is none.
func (p *pool) addOne(items []*work.Item) bool {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	if !p.hasRoomLocked() {
		p.c.ledger.Claim(items)
		return false
	}
	return p.addLocked(items)
}

// emptyLocked takes the jobs out of the inbox.
func (p *pool) emptyLocked() []*work.Item {
	items := p.inbox
	p.inbox = nil
	return items
}

// unbegun is the job with this jid that waits for a worker; nil if there is none.
func (p *pool) unbegun(jid string) *work.Item {
	p.c.mu.Lock()
	waiting := slices.Clone(p.inbox)
	p.c.mu.Unlock()
	for _, w := range waiting {
		if w.Job.Ref().JID == jid {
			return w
		}
	}
	return nil
}

// withdraw takes a job that waits for a worker out of the inbox: its outcome is the caller's. False if it waits no more.
func (p *pool) withdraw(w *work.Item) bool {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	i := slices.Index(p.inbox, w)
	if i < 0 || !p.c.ledger.Take(w) {
		return false
	}
	p.inbox = slices.Delete(p.inbox, i, i+1)
	p.c.intake.wakeLocked()
	return true
}

// closeLocked ends the workers, each after its job, and takes the jobs out of the inbox.
func (p *pool) closeLocked() []*work.Item {
	close(p.rested)
	p.flushLocked()
	for _, s := range p.slots {
		if s.worker != nil {
			s.worker.stopLocked()
		}
	}
	return p.emptyLocked()
}

// wakeLimit is how many workers are woken at a time: several where there are many
// processors, since each of them takes some microseconds to wake the next.
func wakeLimit() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// wakeLocked wakes idle workers for the jobs that wait, one or a few at a time: each worker that begins
// a job wakes the next one. So jobs that block wake worker after worker, and jobs that
// do not block are run by the few workers that the machine has room for.
func (p *pool) wakeLocked() {
	for len(p.inbox)+len(p.due) > p.waking && len(p.idle) > 0 && p.waking < wakeLimit() {
		last := len(p.idle) - 1
		p.idle[last].wakeLocked()
		p.idle = p.idle[:last]
	}
}

// beginsLocked tells whether anything is to be begun: in a quiet capsule only the calls that are due.
func (p *pool) beginsLocked() bool { return !p.c.quiet || len(p.due) > 0 }

// attachLocked lets the worker of s take jobs. It starts a worker if there is none.
func (p *pool) attachLocked(s *slot) {
	if !p.beginsLocked() || s.retired || s.crash != nil || s.box.Keeps() {
		return
	}
	s.attached = true
	if s.worker != nil {
		s.worker.stopped = p.c.quiet
		return
	}
	k := &worker{p: p, s: s, woken: make(chan struct{}, 1), stopped: p.c.quiet}
	s.worker = k
	p.workers++
	osproc.Go(p.c.env.Identity, s.path, k.loop)
	p.c.intake.wakeLocked()
}

// detach stops the worker of s from taking jobs.
func (p *pool) detach(s *slot) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	s.attached = false
	if s.worker != nil {
		s.worker.stopLocked()
	}
}

// started gives s the mailbox of a processor that starts; a crash is over once the next incarnation
// runs.
func (p *pool) started(s *slot, box *supervised.Mailbox) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	s.box, s.crash = box, nil
}

// step tells the processor of s what to do: to crash because a job of its worker panicked, or to end. If neither,
// the worker takes jobs, unless the processor is down.
func (p *pool) step(s *slot, down bool) (crash *supervisor.JobCrash, done bool) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	done = (!p.beginsLocked() || s.retired) && s.worker == nil
	switch {
	case s.crash != nil:
		s.attached = false // until the next incarnation runs
	case !down:
		p.attachLocked(s)
	}
	s.absent = done && !p.c.quiet
	return s.crash, done
}

// crashed stops the worker of s from taking jobs until a strategy has decided about its processor.
func (p *pool) crashed(s *slot) {
	p.c.mu.Lock()
	s.crash = nil
	p.c.mu.Unlock()
	p.detach(s)
}

// needed returns the slots for which a starting manager starts a processor. A slot with a busy worker is one of them: its
// new processor adopts the worker.
func (p *pool) needed() (slots []*slot) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	for _, s := range p.slots {
		if s.worker != nil || p.beginsLocked() && !s.retired {
			slots = append(slots, s)
		}
	}
	return slots
}

// lacking are the slots whose processor is to be started: one that a strategy has stopped is not.
func (p *pool) lacking() (slots []*slot) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	for _, s := range p.slots {
		if s.absent && !s.retired && !p.c.quiet {
			slots = append(slots, s)
		}
	}
	return slots
}

// present notes that s has a processor.
func (p *pool) present(s *slot) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	s.absent = false
}

// slotOf is the slot of the processor at path; nil if path is another actor's.
func (p *pool) slotOf(path string) *slot {
	slots := p.all()
	if i := slices.IndexFunc(slots, func(s *slot) bool { return s.path == path }); i >= 0 {
		return slots[i]
	}
	return nil
}

// isAbsent tells whether the processor of s has ended since s was retired.
func (p *pool) isAbsent(s *slot) bool {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	return s.absent
}

// all are the slots there ever were.
func (p *pool) all() []*slot {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	return p.slots
}

// working is a snapshot of the running jobs, by slot.
func (p *pool) working() map[*slot]*work.Item {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	m := map[*slot]*work.Item{}
	for _, s := range p.slots {
		if s.worker != nil && s.worker.job != nil {
			m[s] = s.worker.job
		}
	}
	return m
}

// runs tells whether a worker has w.
func (p *pool) runs(w *work.Item) bool {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	for k := range p.left {
		if k.job == w {
			return true
		}
	}
	return slices.ContainsFunc(p.slots, func(s *slot) bool { return s.worker != nil && s.worker.job == w })
}

// ended returns how many runs have ended, and how many of them with an error.
func (p *pool) ended() (processed, failed uint64) {
	for _, s := range p.all() {
		n, f := s.runs.Ended()
		processed, failed = processed+n, failed+f
	}
	return processed, failed
}
