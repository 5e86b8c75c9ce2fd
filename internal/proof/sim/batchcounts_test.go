package sim

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupehq/troupe/internal/keys"
)

// What is counted in a batch, and which callbacks are due then.

// learnOf changes the account by what a command has done.
func (b *book) learnOf(o *owner, words []string, before map[string][]string) {
	l, step := &b.batches, stepOf(words)
	var touched []*batch
	if step == "joinbatch" || step == "settle" {
		touched = b.joined(words)
	}
	b.dropped(o, step, before)
	if step == "settle" {
		for _, s := range b.allJobs() {
			b.learnJob(o, s, before)
		}
	}
	if step == "reroute" {
		for _, s := range b.allJobs() {
			if k := l.of(s.in.ID); k != nil && slices.Contains(minus(b.where[s.name], before[s.name]), keys.Dead) {
				b.w.seen["job of a batch dead of poison"]++
				b.count(k, []int{int(s.in.Index)}, "died")
			}
		}
	}
	if step == "countbatch" {
		if k := l.of(words[4]); k != nil && !k.success {
			now, _, _, _ := b.redisCounts(k)
			switch words[5] {
			case "close":
				if !now.closed {
					break // it was refused
				}
				k.closed = true
				b.count(k, nil, "")
			case "cancel":
				if now.cancelled.IsZero() {
					break
				}
				b.cancel(k)
			default:
				if !b.refused {
					b.countedOut(o, k, words[5], words[6:])
				}
			}
		}
	}
	for _, k := range touched {
		b.count(k, nil, "")
	}
}

// joined notes which jobs and batches have entered, and returns the batches that were ended.
func (b *book) joined(words []string) (touched []*batch) {
	l := &b.batches
	for _, k := range l.all {
		if now, _, _, there := b.redisCounts(k); there && !k.there {
			k.there, k.counts = true, counts{ran: map[int]bool{}, done: map[int]bool{}, cancelled: now.cancelled}
		}
	}
	for _, s := range b.allJobs() {
		k := l.of(s.in.ID)
		if k == nil || s.joined || s.callbackOf != nil || s.parent != nil && s.push == nil {
			continue // a callback enters with its mark, a link of a chain has the place of the first
		}
		s.joined = true
		k.total++
		b.takes(k, int(s.in.Index), s.name)
		b.w.seen["job in a batch"]++
	}
	for _, k := range l.all {
		now, _, _, there := b.redisCounts(k)
		if !there {
			continue
		}
		ended := shutBy(words, k.id)
		if now.up != "" && k.up == "" && ended {
			if k.maker == nil || now.up != k.maker.id {
				b.w.fail("%s is in %s", k.name, now.up)
			}
			up := l.of(now.up)
			k.up, k.at = now.up, now.at
			up.total++
			b.takes(up, k.at, k.name)
			b.w.seen["batch in a batch"]++
			if k.fired[2] {
				b.count(up, nil, "died")
			}
			if !up.cancelled.IsZero() {
				b.cancel(k)
			}
		}
		if ended {
			touched = append(touched, k)
			if now.closed && !k.closed && (!k.plan.Open || k.closing) {
				k.closed = true
			}
		}
	}
	return touched
}

// takes notes who has a place in a batch.
func (b *book) takes(k *batch, index int, name string) {
	if other := k.places[index]; other != "" && other != name {
		b.w.fail("%s has place %d of %s, and so has %s", name, index, k.name, other)
	}
	k.places[index] = name
}

// shutBy reports whether a command is the last of those that push into a batch.
func shutBy(words []string, id string) bool {
	if script(words) == "joinbatch" {
		return len(words) > 9 && words[8] != "" && words[9] == id
	}
	for i := 0; i+4 < len(words); i++ {
		if words[i] == "join" && words[i+4] == id {
			return true
		}
	}
	return false
}

// dropped judges jobs that have ended without a run: their batches were cancelled. Redis may have forgotten that for a while, and the
// process has not.
func (b *book) dropped(o *owner, step string, before map[string][]string) {
	for _, s := range b.allJobs() {
		if step != "settle" || !b.acked(o, s, before) {
			continue
		}
		cancelled := slices.ContainsFunc(b.batches.all, func(k *batch) bool {
			return k.id == s.in.ID && (k.there && !k.cancelled.IsZero() || k.wasCancelled && time.Since(later(b.w.fell, o.faulted)) <= noticed)
		})
		if cancelled && b.howIn(o, s) == "" && s.done == 0 {
			s.done++
			delete(s.running, o.name)
			b.w.seen["job called off"]++
		}
	}
}

// acked reports whether a job has left a process, to nowhere.
func (b *book) acked(o *owner, s *state, before map[string][]string) bool {
	old, now := before[s.name], b.where[s.name]
	return b.claims(o, old) > b.claims(o, now) && len(minus(now, old)) == 0
}

// runIn is the last run of a job in a process, nil without one. When its batch was cancelled, and the process has taken it
// again since the run began, it is called off: then there is none.
func (b *book) runIn(o *owner, s *state) *pushing {
	if k := b.batches.of(s.in.ID); k != nil && !k.cancelled.IsZero() && s.taken[o.name] > s.began[o.name] {
		return nil
	}
	return s.last[o.name]
}

// howIn is how that run has ended: "" if it has not.
func (b *book) howIn(o *owner, s *state) string {
	if p := b.runIn(o, s); p != nil {
		return p.how
	}
	return ""
}

// learnJob counts a job that was moved.
func (b *book) learnJob(o *owner, s *state, before map[string][]string) {
	old, now := before[s.name], b.where[s.name]
	k := b.batches.of(s.in.ID)
	if k == nil || b.claims(o, old) <= b.claims(o, now) {
		return
	}
	came, index := minus(now, old), []int{int(s.in.Index)}
	switch how := b.howIn(o, s); {
	case slices.Contains(came, keys.Retry):
		if s.next == nil {
			b.count(k, index, "ran")
		}
	case slices.Contains(came, keys.Dead):
		s.dead = true
		b.w.seen["job of a batch died"]++
		b.count(k, index, "died")
	case len(came) > 0:
	case how == "dropped":
		b.w.seen["job of a batch dropped"]++
		b.count(k, index, "died")
	case s.next == nil || how == "":
		b.count(k, index, "done")
	}
}

// count counts jobs in the account, and fires what is due.
func (b *book) count(k *batch, indexes []int, event string) {
	if k == nil || k.success {
		return
	}
	for _, i := range indexes {
		k.ran[i] = true
		if event == "done" {
			k.done[i] = true
		}
	}
	if !k.cancelled.IsZero() {
		return
	}
	up := b.batches.of(k.up)
	news, placed := [3]bool{}, false
	fire := func(i int) {
		news[i], placed = b.fire(k, i, up)
	}
	if (event == "died" || k.refused[2]) && !k.fired[2] {
		fire(2)
	}
	if k.closed && len(k.ran) == k.total && !k.fired[0] {
		fire(0)
	}
	if k.closed && len(k.done) == k.total && k.fired[0] {
		fire(1)
	}
	if up == nil {
		return
	}
	how, at := "", []int(nil)
	if news[0] || news[1] {
		how, at = "ran", []int{k.at}
	}
	if news[1] && !placed {
		how = "done"
	}
	if news[0] || news[1] {
		b.count(up, at, how)
	}
	if news[2] {
		b.count(up, nil, "died")
	}
}

// fire has a callback be due. Not if its queue is of a wrong type; placed: it has the place of the batch in its parent.
func (b *book) fire(k *batch, i int, up *batch) (fired, placed bool) {
	if s := k.on[i]; s != nil {
		now, _, _, _ := b.redisCounts(k)
		if b.w.redis.Type(keys.Queue(s.plan.Queue)) == "string" || k.refused[i] && !now.fired[i] {
			k.refused[i] = true
			b.w.seen["callback refused"]++
			return false, false
		}
		b.batches.due[s] = true
		if up != nil && !up.success && i == 1 {
			placed = true
		} else if up != nil && !up.success {
			up.total++
		}
		b.w.seen["callback of "+events[i]]++
	}
	k.fired[i], k.refused[i] = true, false
	k.success = k.fired[1]
	return true, placed
}

// ranInRuby reports whether a Ruby worker has run a job, or one before it in its chain: then its batch does not count it.
func (s *state) ranInRuby() bool {
	for s.parent != nil && s.push == nil && !s.ruby {
		s = s.parent
	}
	return s.ruby
}

// countedOut judges that jobs are counted in a step of their own: by people, who count out those that are nowhere.
func (b *book) countedOut(o *owner, k *batch, event string, indexes []string) {
	for _, text := range indexes {
		i, _ := strconv.Atoi(text)
		if where, _ := b.placed(k, i); o != b.w.client || event != "done" || where != "" {
			b.w.fail("job %d of %s is counted by countbatch as %s, and stands in %s", i, k.name, event, where)
		}
		b.w.seen["job counted out"]++
		b.count(k, []int{i}, event)
	}
}

// misses reports whether a job of a batch is not done for it, was run by Ruby, and is nowhere.
func (b *book) misses(k *batch) bool {
	for i := range k.total {
		if where, ruby := b.placed(k, i); !k.done[i] && where == "" && ruby {
			return true
		}
	}
	return false
}

// placed tells where the jobs of a place in a batch are, and whether Ruby has run one. A chain has one place.
func (b *book) placed(k *batch, index int) (where string, ruby bool) {
	for _, s := range b.allJobs() {
		if s.in.ID == k.id && int(s.in.Index) == index {
			where += s.hand + strings.Join(b.where[s.name], " ")
			ruby = ruby || s.ranInRuby()
		}
	}
	return where, ruby
}

// pends reports whether a batch waits for a job that has not been done, or for a batch.
func (b *book) pends(k *batch) bool {
	return slices.ContainsFunc(b.allJobs(), func(s *state) bool {
		return s.in.ID == k.id && (s.dead || s.plan.Drops || slices.Contains(b.where[s.name], keys.Dead))
	}) || slices.ContainsFunc(b.batches.all, func(in *batch) bool { return in.there && in.up == k.id && !in.success && in.cancelled.IsZero() })
}

// cancel notes that a batch is cancelled.
func (b *book) cancel(k *batch) {
	k.cancelled, k.closed = time.Now(), true
	b.w.seen["batch cancelled"]++
	b.count(k, nil, "")
	if up := b.batches.of(k.up); up != nil {
		b.count(up, []int{k.at}, "done")
	}
}
