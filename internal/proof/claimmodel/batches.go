package claimmodel

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Keys of the batch of a history: its hash, and who of its jobs has ended.
const (
	batchKey = "troupe:batch"
	bitsKey  = "troupe:batch:ended"
	callback = "callback"
)

func resultKey(job string) string { return "troupe:result:" + job }

// Counting is what the move of a job counts in its batch, and what is kept of its end.
type Counting struct {
	End    bool   // the job has ended
	Result string // what its run says; kept with its end
	Queue  string // key of the queue of the callback

	callback string         // what its bytes are, if it enters now
	fired    func(c string) // it has entered
}

// number is a field of a hash.
func (c *call) number(key, field string) int {
	text, _ := c.hget(key, field)
	n, _ := strconv.Atoi(text)
	return n
}

// Join adds a job to the batch. Closed is what a batch is that may end.
func Join(c *call, job string) {
	c.hset(batchKey, "total", number(c.number(batchKey, "total")+1))     //nolint:errcheck // nothing else has this name
	c.hset(batchKey, "pending", number(c.number(batchKey, "pending")+1)) //nolint:errcheck // likewise
	c.hset(batchKey, "has "+job, "1")                                    //nolint:errcheck // likewise
}

// Close lets the batch end, and fires its callback if it is due. It may be repeated.
func Close(c *call, x Counting, rules *Without) {
	c.hset(batchKey, "closed", "1") //nolint:errcheck // nothing else has this name
	x.fire(c, rules)
}

// count notes that a job has ended. Who is not in the batch, since Redis has forgotten that it entered, is not counted.
//
//	KEYS batch, bits, queue of the callback
func (x *Counting) count(c *call, job string, rules *Without) {
	if x == nil || !x.End && !rules.RetryIsNoEnd {
		return
	}
	has, _ := c.hget(batchKey, "has "+job)
	bit, _ := c.hget(bitsKey, job)
	if has == "" && !rules.KnownIsCounted || bit != "" && !rules.CountedByBit {
		return
	}
	c.hset(bitsKey, job, "1")                                            //nolint:errcheck // nothing else has this name
	c.hset(batchKey, "pending", number(c.number(batchKey, "pending")-1)) //nolint:errcheck // likewise
	x.fire(c, rules)
}

// fire pushes the callback when all jobs have ended, before the mark that it was pushed.
func (x *Counting) fire(c *call, rules *Without) {
	closed, _ := c.hget(batchKey, "closed")
	fired, _ := c.hget(batchKey, "fired")
	if c.number(batchKey, "pending") > 0 || closed == "" && !rules.OpenStays || fired != "" {
		return
	}
	if rules.CallbackBeforeMark {
		c.hset(batchKey, "fired", "1") //nolint:errcheck // only in a mutant
	}
	if c.push(x.Queue, x.callback, true) != nil {
		return
	}
	x.fired(x.callback)
	if !rules.FiredIsMarked {
		c.hset(batchKey, "fired", "1") //nolint:errcheck // nothing else has this name
	}
}

// keep writes what is kept of the end of a job.
func (x *Counting) keep(c *call, job string, rules *Without) {
	if x != nil && (x.End || rules.RetryKeepsNone) {
		c.set(resultKey(job), x.Result, 0) //nolint:errcheck // a write came before it
	}
}

// counting is that of a run that has ended; nil for none.
func (w *World) counting(u *unit, o *owner) *Counting {
	if !w.faults.batches || strings.HasPrefix(u.job, callback) {
		return nil
	}
	return &Counting{End: u.outcome == well || u.outcome == died, Result: o.id() + " " + number(u.run), Queue: queueKey(w.queues[0]), fired: w.fired}
}

// moveCounted is move with a look at what is kept of the job: that changes in the step that ends it, and in no other.
func (w *World) moveCounted(c *call, h Head, u *unit, to Destination, e Effects) Reply {
	text := func() string {
		if v := c.m.find(resultKey(u.job)); v != nil {
			return v.list[0]
		}
		return ""
	}
	if e.Count != nil {
		e.Count.callback = w.nextCallback()
	}
	before := text()
	r := w.move(c, h, u, to, e)
	x := e.Count
	if x == nil {
		return r
	}
	settled := r.Verdict == OK && len(r.Refused) == 0 && x.End
	switch now := text(); {
	case settled && now != x.Result:
		w.fail("result: %s ends as %q, and %q is kept", u.job, x.Result, now)
	case !settled && now != before:
		w.fail("result: %q is kept of %s, which has not ended", now, u.job)
	case settled:
		w.note("end kept")
	}
	if settled && w.rules.CountedInStep {
		return r
	}
	w.sums()
	return r
}

// sums judges the numbers of the batch.
func (w *World) sums() {
	c := &call{m: w.masters[0], left: -1, wrote: true}
	ended := 0
	for _, job := range c.fields(bitsKey) {
		if has, _ := c.hget(batchKey, "has "+job); has != "" {
			ended++
		}
	}
	if total, pending := c.number(batchKey, "total"), c.number(batchKey, "pending"); pending != total-ended {
		w.fail("count: of %d jobs %d have ended, and %d are pending", total, ended, pending)
	}
}

// nextCallback is what a callback is that enters now: one that enters again, since Redis has forgotten it, has other bytes.
func (w *World) nextCallback() string { return callback + number(w.callbacks+1) }

// fired judges the callback that enters now.
func (w *World) fired(c string) {
	a := &w.acc
	w.callbacks++
	a.pushed[c]++
	w.works[c] = work{queue: w.queues[0]}
	w.note("callback pushed")
	once := a.forgot == 0
	if once && w.callbacks > 1 {
		w.fail("doubled: the callback enters again")
	}
	if once && !w.closed {
		w.fail("early: the callback enters, and the batch is open")
	}
	for _, job := range w.batch {
		if once && a.copies[job] == 0 && w.inRedis(job) {
			w.fail("early: the callback enters, and %s has not ended", job)
		}
	}
}

// closeBatch lets the batch end.
func (w *World) closeBatch() {
	if !w.faults.batches || w.masters[0].full || len(w.batch) == 0 {
		return
	}
	w.tracef("the batch is closed")
	w.closed = true
	x := Counting{Queue: queueKey(w.queues[0]), callback: w.nextCallback(), fired: w.fired}
	w.run(w.masters[0], -1, func(c *call) Reply { c.wrote = true; Close(c, x, w.rules); return Reply{Verdict: OK} })
}

// leftBatch judges the batch when all jobs have ended, and takes its keys away.
func (w *World) leftBatch() {
	if !w.faults.batches {
		return
	}
	m := w.masters[0]
	c := &call{m: m, left: -1, wrote: true}
	w.sums()
	for _, job := range w.batch {
		has, _ := c.hget(batchKey, "has "+job)
		if bit, _ := c.hget(bitsKey, job); has != "" && bit == "" && !w.acc.elsewhere[job] {
			w.fail("not counted: %s has ended", job)
		}
	}
	if fired, _ := c.hget(batchKey, "fired"); len(w.batch) > 0 && (fired == "" || w.callbacks == 0) && !slices.ContainsFunc(w.batch, func(job string) bool { return w.acc.elsewhere[job] }) {
		w.fail("missing: all jobs of the batch have ended, and its callback was not pushed")
	}
	delete(m.keys, batchKey)
	delete(m.keys, bitsKey)
	maps.DeleteFunc(m.keys, func(key string, _ *value) bool { return strings.HasPrefix(key, resultKey("")) })
}
