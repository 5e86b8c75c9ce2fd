package claimmodel

import (
	"slices"
	"strings"
)

// Effects are what else a move does in its script: jobs that enter Redis, the cursor of an iterable job, and the lock
// of a unique one.
type Effects struct {
	Push   []Push
	Cursor string // key of a hash, "" for none
	Item   string // what is written there
	Lock   string // key of the lock of the job that is moved, "" for none
	Keep   bool   // the job goes on, and keeps it
	Slot   Leaving
	Count  *Counting // nil: it is in no batch
}

// Push is a job that enters, if nobody else holds its lock.
type Push struct{ Job, Key, Lock string }

// enter writes what enters with the move of a job. If one is refused, those before it are taken back.
func (e Effects) enter(c *call, rules *Without) error {
	var entered, locked []Push
	for _, p := range e.Push {
		if p.Lock != "" {
			holder, err := c.get(p.Lock)
			switch {
			case err != nil:
				return err
			case holder == "" && c.set(p.Lock, p.Job, 0) == nil:
				locked = append(locked, p)
			case holder != p.Job:
				continue // a duplicate
			}
		}
		err := c.push(p.Key, p.Job, true)
		if err == nil {
			entered = append(entered, p)
			continue
		}
		if !rules.LocksTakenBack {
			for _, p := range locked {
				c.del(p.Lock)
			}
		}
		if !rules.PushesTakenBack {
			for _, p := range entered {
				c.unpush(p.Key)
			}
		}
		return err
	}
	if e.Cursor != "" {
		return c.hset(e.Cursor, "c", e.Item)
	}
	return nil
}

// unlock frees the lock of a job that is moved, or keeps it: then it is taken again if nobody holds it.
func (e Effects) unlock(c *call, job string, rules *Without) {
	if e.Lock == "" {
		return
	}
	holder, err := c.get(e.Lock)
	switch {
	case err != nil:
	case e.Keep:
		if holder == "" {
			c.set(e.Lock, job, 0) //nolint:errcheck // a write came before it
		}
	case holder == job || rules.LockOfOthers:
		c.del(e.Lock)
	}
}

// get reads a text.
func (c *call) get(key string) (string, error) {
	v, err := c.touch(key, aString, false, false)
	if v == nil {
		return "", err
	}
	return v.list[0], nil
}

// unpush is LTRIM key 1 -1: it takes what was pushed last.
func (c *call) unpush(key string) {
	if v, err := c.touch(key, aList, true, false); v != nil && err == nil {
		v.list = slices.Delete(v.list, 0, 1)
		c.drop(key, v)
	}
}

// work is what a job does to others.
type work struct {
	pushes bool   // two jobs, with its ack
	items  int    // it is iterable: each item pushes one, with the cursor behind it
	lock   string // key
	queue  string
}

const mostItems = 3

// lockKey is the lock of all unique jobs of a slot.
func (w *World) lockKey(queue string) string {
	if !w.cluster {
		queue = ""
	}
	return "troupe:lock:{" + queue + "}:x"
}

// draw says what a job that is pushed does to others.
func (w *World) draw(job, queue string) {
	do := work{queue: queue}
	if w.faults.effects {
		switch w.pick(5) {
		case 1:
			do.pushes = true
		case 2:
			do.pushes, do.lock = true, w.lockKey(queue)
		case 3:
			do.lock = w.lockKey(queue)
		case 4:
			if !w.cluster { // the cursor lies in another slot
				do.items = mostItems
			}
		}
	}
	w.works[job] = do
}

// ackedWith are the pushes of a run that has ended well.
func (w *World) ackedWith(u *unit) {
	if !w.works[u.job].pushes {
		return
	}
	w.runs++
	other := w.queues[len(w.queues)-1]
	if w.cluster {
		other = u.queue
	}
	w.child(u, u.job+"/"+number(w.runs)+"u", u.queue, w.lockKey(u.queue))
	w.child(u, u.job+"/"+number(w.runs), other, "")
}

// cursor is the key of the cursor of an iterable job.
func cursor(job string) string { return "it-" + job }

// child is what a run is about to push.
func (w *World) child(u *unit, job, queue, lock string) {
	w.works[job] = work{lock: lock, queue: queue}
	u.effects.Push = append(u.effects.Push, Push{Job: job, Key: queueKey(queue), Lock: lock})
}

// store sends what an item has pushed, together with the cursor behind it. The job stays in progress.
func (p *place) store(u *unit) {
	w := p.o.w
	if len(u.effects.Push) == 0 {
		w.child(u, u.job+"+"+number(u.item+1), u.queue, "")
		u.effects.Cursor, u.effects.Item = cursor(u.job), number(u.item+1)
	}
	u.busy = true
	effects := u.effects
	p.request("store item "+effects.Item+" of "+u.job, p.next(), nil, func(c *call, h Head) Reply {
		return w.move(c, h, u, Destination{Stay: true}, effects)
	}, func(r Reply) {
		if u.busy = false; r.ByNumber && w.rules.StayIsRemembered {
			return
		}
		u.item++
		u.effects = Effects{}
	})
}

// move is Move with a look at what it does: what is pushed enters in the step that settles its job, or stores its
// cursor, and in no other.
func (w *World) move(c *call, h Head, u *unit, to Destination, e Effects) Reply {
	a := &w.acc
	count := func(key, job string) int {
		if v := c.m.find(key); v != nil && v.kind == aList {
			return count(v.list, job)
		}
		return 0
	}
	before, held := make([]int, len(e.Push)), make([]bool, len(e.Push))
	for i, p := range e.Push {
		before[i] = count(p.Key, p.Job)
		lock := c.m.find(p.Lock)
		held[i] = lock != nil && lock.list[0] != p.Job
	}
	job, number := count(h.list(u.list), u.job), ""
	if v := c.m.find(e.Cursor); v != nil {
		number = v.hash["c"]
	}
	entered, done := 0, false
	once := a.forgot == 0 && a.copies[u.job] == 0 // else Redis has forgotten the move, or has its job twice
	defer func() {
		for i, p := range e.Push {
			n := count(p.Key, p.Job) - before[i]
			if n > 0 {
				a.pushed[p.Job] += n
				a.entered[p.Job] += n
				entered++
				w.note("pushed with a move")
			} else if held[i] {
				a.left[p.Job] = true
				w.note("left out")
			}
			if a.entered[p.Job] > 1 && once && !a.half[p.Job] {
				w.fail("doubled: %s enters for the %d. time", p.Job, a.entered[p.Job])
			}
			if !done {
				a.half[p.Job] = true // it broke off
			}
		}
		if done && entered > 0 && once && !to.Stay && !a.half[e.Push[0].Job] && count(h.list(u.list), u.job) == job {
			w.fail("half: %s enters, and %s stays in progress", e.Push[0].Job, u.job)
		}
		if v := c.m.find(e.Cursor); done && to.Stay && once && (v != nil && v.hash["c"] != number) != (entered > 0) && !a.half[e.Push[0].Job] {
			w.fail("half: of %s and the cursor behind it one is there", e.Push[0].Job)
		}
	}()
	r := Move(c, h, u.list, u.job, to, e)
	done = true
	return r
}

// settledWith holds the pushes of a run against its end, which its owner takes for settled.
func (w *World) settledWith(u *unit) {
	a := &w.acc
	if u.outcome != well {
		return
	}
	for _, p := range u.effects.Push {
		if a.entered[p.Job] == 0 && !a.left[p.Job] {
			w.fail("not pushed: %s is settled, and %s has not entered", u.job, p.Job)
		}
	}
	for i := range w.works[u.job].items {
		if child := u.job + "+" + number(i+1); a.entered[child] == 0 {
			w.fail("not pushed: %s is settled, and %s has not entered", u.job, child)
		}
	}
}

// locks notes who has come to hold a lock. Who had it before may not be in Redis any more, unless Redis has forgotten
// the lock or its time was over.
func (w *World) locks(m *Master) {
	for key, v := range m.keys {
		if !strings.HasPrefix(key, "troupe:lock:") || v.kind != aString {
			continue
		}
		holder, before := v.list[0], w.acc.holder[key]
		if holder == before {
			continue
		}
		w.acc.holder[key] = holder
		if before != "" && w.inRedis(before) && w.acc.copies[before] == 0 {
			w.fail("two holders: %s takes %s, which %s holds", holder, key, before)
		}
	}
}

// inRedis reports whether a job waits or is in progress.
func (w *World) inRedis(job string) bool {
	for _, m := range w.masters {
		for key, v := range m.keys {
			if w.rests(key) {
				continue
			}
			if _, ok := v.hash[job]; ok && v.kind == aSet || v.kind == aList && count(v.list, job) > 0 {
				return true
			}
		}
	}
	return false
}

// expire ends the time of a lock.
func (w *World) expire() {
	for _, m := range w.masters {
		for key := range m.keys {
			if strings.HasPrefix(key, "troupe:lock:") {
				w.tracef("the time of %s is over", key)
				w.note("lock expired")
				delete(m.keys, key)
				delete(w.acc.holder, key)
				return
			}
		}
	}
}

// leftLocks looks for locks without a job, when all jobs have ended.
func (w *World) leftLocks() {
	for _, m := range w.masters {
		for key, v := range m.keys {
			if strings.HasPrefix(key, "troupe:lock:") && v.kind == aString {
				if job := v.list[0]; !w.acc.half[job] && w.acc.copies[job] == 0 && !w.acc.elsewhere[job] && w.big == "" {
					w.fail("lock without a job: %s is held by %s, which has ended", key, job)
				}
				delete(m.keys, key)
			}
		}
	}
}
