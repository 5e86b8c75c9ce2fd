package sim

import (
	"slices"
	"strings"
	"testing/synctest"
	"time"
)

// fault returns what the plan has for this step of the owner, nil for nothing, and
// applies it unless it is one of the command at hand.
func (w *world) fault(o *owner, ofJobs, ofWays, ofPushes bool) *Fault {
	if o.steps == nil || w.ending || o.dead {
		return nil
	}
	now, index := *o.steps, len(w.plan.Fleet)
	if o.place != nil {
		index = o.place.index
	}
	o.steps.all++
	if ofJobs {
		o.steps.ofJobs++
	}
	if ofWays {
		o.steps.ofWays++
	}
	if ofPushes {
		o.steps.ofPushes++
	}
	i := slices.IndexFunc(w.plan.Faults, func(f Fault) bool {
		switch {
		case f.Place != index:
			return false
		case f.OfWays:
			return ofWays && f.Step == now.ofWays
		case f.OfPushes:
			return ofPushes && f.Step == now.ofPushes
		case f.OfJobs:
			return ofJobs && f.Step == now.ofJobs
		}
		return f.Step == now.all
	})
	if i < 0 {
		return nil
	}
	f := &w.plan.Faults[i]
	if o == w.client && (f.Kind == Kill || f.Kind == Term) {
		return nil
	}
	w.say("      %s: %s for %s", o.name, f.Kind, f.For)
	w.seen["fault: "+f.Kind.String()]++
	if f.Kind == Term && time.Since(o.faulted) > slotLife+2*limitsBeat {
		o.told = time.Now().Add(f.For)
	}
	o.faulted = time.Now().Add(f.For)
	switch f.Kind {
	case Kill:
		w.kill(o.place.now)
		w.after(f.For, func() { w.start(o.place) })
	case Term:
		p := o.place.now
		w.stop(o.place)
		w.await(p, f.For)
	case Restart:
		w.restart(f.For)
	case Pause:
		o.resumes = time.Now().Add(f.For)
	case CutAll:
		w.cut(w.connsOf(o))
	case Rollback, Failover:
		w.restart(f.For)
		if f.Kind == Failover { // another server is there at once
			w.loading = w.down
		}
		w.fallBack(f.Back)
	}
	return f
}

// await starts a new process when p has ended.
func (w *world) await(p *process, then time.Duration) {
	w.after(then, func() {
		if !p.isOver() {
			w.await(p, 100*time.Millisecond)
			return
		}
		w.start(p.place)
	})
}

// kill ends a process as kill -9 does. What it has sent is applied or not.
func (w *world) kill(p *process) {
	w.mu.Lock()
	p.dead = true
	w.mu.Unlock()
	for _, c := range w.connsOf(p.owner) {
		w.lastWords(c)
		w.mu.Lock()
		c.sever()
		w.mu.Unlock()
	}
	w.mu.Lock()
	for _, a := range w.acts {
		a.off = a.off || a.owner == p.owner
	}
	w.mu.Unlock()
	close(p.gone) // its handlers return, its daemon stops: nobody sees it
}

// lastWords carries out some of what was sent on a connection, and nothing more
// is to come.
func (w *world) lastWords(c *conn) {
	for len(c.cmds) > 0 && c.wait == nil && w.random.IntN(2) == 0 {
		w.say("      still applied: %s", c.cmds[0].key)
		w.carryOut(c, false)
	}
	w.mu.Lock()
	late := len(c.cmds) > 0 && strings.EqualFold(c.cmds[0].words[0], "blmove") && w.random.IntN(2) == 0
	if late { // it is on its way, however long
		c.cmds = c.cmds[:1]
		c.cmds[0].from = time.Now().Add(time.Duration(w.random.Int64N(int64(4 * lease))))
	} else {
		c.cmds = nil
	}
	c.gone, c.answer = true, nil
	if w.random.IntN(2) == 0 { // else Redis does not notice for now that it is gone
		c.wait = nil
	}
	w.mu.Unlock()
	w.dispatch(c, []string{"UNSUBSCRIBE"})
}

// cut ends connections, at one instant each: they come back at one each.
func (w *world) cut(conns []*conn) {
	for _, c := range conns {
		w.mu.Lock()
		c.sever()
		w.mu.Unlock()
		synctest.Wait()
		time.Sleep(time.Microsecond) // a world is in a bubble
	}
}

// restart ends Redis and starts it again with its data. Its scripts are gone,
// and so are all connections.
func (w *world) restart(d time.Duration) {
	w.mu.Lock()
	w.down, w.loading = time.Now().Add(d/2), time.Now().Add(d)
	w.mu.Unlock()
	for _, p := range w.all {
		if p.faulted.Before(w.loading) {
			p.faulted = w.loading
		}
	}
	all := w.connsOf(nil)
	for _, c := range all {
		w.lastWords(c)
	}
	w.mu.Lock()
	for _, c := range w.conns {
		c.wait, c.cmds = nil, nil
	}
	w.mu.Unlock()
	w.dispatch(newConn(w, nil), []string{"SCRIPT", "FLUSH"})
	w.preloaded = false
	w.cut(all)
}

// connsOf are the connections of an owner, nil: of everybody, in an order that
// replays.
func (w *world) connsOf(o *owner) (mine []*conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		if o == nil || c.owner == o {
			mine = append(mine, c)
		}
	}
	slices.SortStableFunc(mine, compareConns)
	return mine
}
