package claimmodel

import (
	"maps"
	"slices"
	"strings"
)

// settle ends all faults and lets time pass, until each job has ended and the
// processes have left. Then nothing of troupe may stay behind.
func (w *World) settle() {
	w.faultless = true
	w.tracef("all faults stop")
	for _, m := range w.masters {
		m.full = false
		clear(m.bad)
		w.serve(m)
	}
	for _, o := range w.live() {
		o.paused = 0
	}
	if len(w.stayers()) == 0 {
		w.newOwner().thin = false
	}
	for range 400 {
		if w.wrong != "" {
			return
		}
		w.round()
		if w.allEnded() {
			w.stop()
			return
		}
	}
	w.fail("stuck: %s", w.state())
}

// stayers are live owners that serve all queues, with links that carry anything.
func (w *World) stayers() []*owner {
	return slices.DeleteFunc(w.live(), func(o *owner) bool { return o.leaving || o.thin })
}

// round has everybody do what can be done, and a little time pass.
func (w *World) round() {
	for _, x := range w.movable() {
		if x.state == sent {
			w.arrive(x)
		} else {
			w.deliver(x)
		}
	}
	for _, o := range w.live() {
		for range 3 {
			if can := o.actions(); len(can) > 0 && o.alive {
				can[w.any(len(can))].do()
			}
		}
	}
	for _, r := range w.rescue {
		r.step()
	}
	w.promote()
	if w.faultless {
		w.closeBatch()
	}
	if w.rounds++; w.rounds%3 == 0 {
		w.tick(1)
	}
}

// any draws a number below n without asking the history for it. Every number comes in turn.
func (w *World) any(n int) int {
	w.mix = w.mix*1664525 + 1013904223
	return int(w.mix>>16) % n
}

// allEnded reports whether each job that was pushed has ended, and no copy of one is
// anywhere.
func (w *World) allEnded() bool {
	for _, m := range w.masters {
		for key, v := range m.keys {
			if v.kind == aList || v.kind == aSet && !w.rests(key) {
				return false
			}
		}
	}
	for _, o := range w.live() {
		for _, p := range o.places {
			if len(p.units) > 0 {
				return false
			}
		}
	}
	for _, x := range w.wire { // none on its way back, none yet to arrive
		if x.got == nil && x.state == sent || len(x.reply.Jobs) > 0 || len(x.reply.Claims) > 0 {
			return false
		}
	}
	return true
}

// rests reports whether jobs in a key have ended.
func (w *World) rests(key string) bool { return key == "dead" || strings.HasSuffix(key, unreadable) }

// stop has all owners leave, and looks at what is left.
func (w *World) stop() {
	for job, n := range w.acc.pushed {
		dead := 0
		for _, m := range w.masters {
			for key, v := range m.keys {
				if _, ok := v.hash[job]; ok && w.rests(key) {
					dead = 1
				}
			}
		}
		if w.acc.finished[job]+dead < n && !w.acc.excused[job] && !w.acc.put[job] {
			w.fail("lost: %s was pushed %d times, and ended %d times", job, n, w.acc.finished[job]+dead)
		}
	}
	for _, o := range w.live() {
		o.leaving = true
	}
	for range 300 {
		w.round()
		if w.wrong != "" || len(w.live()) == 0 && w.inRegistries() == 0 && len(w.wire) == 0 {
			break
		}
	}
	w.leftLocks()
	w.leftSlots()
	w.leftBatch()
	if left := w.left(); len(w.seen) == 0 && left != "" && w.wrong == "" {
		w.fail("left behind after a clean stop: %s", left)
	}
	if w.wrong == "" && len(w.live()) > 0 {
		w.fail("stuck: %s cannot leave: %s", w.live()[0].name(), w.state())
	}
	w.tick(day + 1)
	if left := w.left(); left != "" && w.wrong == "" {
		w.fail("left behind: %s", left)
	}
}

func (w *World) inRegistries() (n int) {
	for _, m := range w.masters {
		for key, v := range m.keys {
			if strings.HasPrefix(key, "troupe:places") || strings.HasPrefix(key, "troupe:procs") {
				n += len(v.hash)
			}
		}
	}
	return n
}

// left names the keys of troupe.
func (w *World) left() string {
	var keys []string
	for _, m := range w.masters {
		for _, key := range slices.Sorted(maps.Keys(m.keys)) {
			if v := m.find(key); v != nil && strings.HasPrefix(key, "troupe:") {
				keys = append(keys, key+v.String())
			}
		}
	}
	return strings.Join(keys, " ")
}

// state is all there is.
func (w *World) state() string {
	var b strings.Builder
	for _, m := range w.masters {
		b.WriteString(w.dump(m))
	}
	for _, o := range w.live() {
		b.WriteString("| " + o.name() + ":")
		for _, p := range o.places {
			for _, u := range p.units {
				b.WriteString(" " + u.job + " of " + u.list)
			}
		}
	}
	for _, x := range w.wire {
		b.WriteString(" ~" + x.name)
	}
	return b.String()
}
