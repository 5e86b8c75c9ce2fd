package sim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
)

// The book keeps an account of each batch. It learns from where jobs come and go what is to be counted, as docs/batches.md
// says, and after every command Redis must say the same; the callbacks that are due, and no others, must enter in that very command.
// After a fallback the account is what Redis says. Then what Redis says must fit together, and a callback enters with its mark.

// batch is what the book knows of one.
type batch struct {
	name  string
	id    string
	plan  *Batch
	maker *batch // the batch around it, by the plan
	jobs  []*state
	grown []*state
	below []*batch
	on    [3]*state

	there  bool
	places map[int]string // index -> job or batch
	counts
	refused [3]bool // callbacks that their queue has refused
	closing bool    // it may be closed though the plan leaves it open

	wasCancelled bool // and Redis may have forgotten it
}

// counts are what is said of a batch: by the book, and by Redis.
type counts struct {
	total     int
	ran, done map[int]bool
	closed    bool
	success   bool
	fired     [3]bool // by the index of events; that of success is success
	cancelled time.Time
	up        string // ID of the parent
	at        int    // index in it
}

// batches is the part of the book that is about them.
type batches struct {
	all  []*batch
	due  map[*state]bool // callbacks that are to enter in this command
	fell bool
}

func (l *batches) of(id string) *batch {
	i := slices.IndexFunc(l.all, func(k *batch) bool { return k.there && k.id == id })
	if i < 0 {
		return nil
	}
	return l.all[i]
}

// batchIs notes the ID of a batch.
func (b *book) batchIs(k *batch, id string) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	k.id = id
	b.pairs = append(b.pairs, id, k.name)
	b.w.names = strings.NewReplacer(b.pairs...)
}

// readBatch notes the place of a job in a batch.
func (b *book) readBatch(s *state, payload string) {
	in, ok := placeOf(payload)
	if !ok {
		return
	}
	if s.in.ID != "" && s.in != in && !b.batches.fell {
		b.w.fail("%s was %s, and is %s", s.name, s.in, in)
	}
	s.in = in
}

func placeOf(payload string) (job.InBatch, bool) {
	_, rest, ok := strings.Cut(payload, `"t_batch":"`)
	text, _, _ := strings.Cut(rest, `"`)
	if !ok {
		return job.InBatch{}, false
	}
	return job.ParseInBatch(text)
}

// redisCounts reads a batch; pending and unrun are as they are stored.
func (b *book) redisCounts(k *batch) (now counts, pending, unrun int, there bool) {
	r, key := b.w.redis, keys.Batch(k.id)
	if k.id == "" || r.Type(key) != "hash" {
		return now, 0, 0, false
	}
	number := func(field string) int {
		n, _ := strconv.Atoi(r.HGet(key, field))
		return n
	}
	bits := func(key string) map[int]bool {
		all := map[int]bool{}
		text, _ := r.Get(key)
		for i := range min(8*len(text), number("total")) { // Redis may have forgotten that others entered
			if text[i/8]>>(7-i%8)&1 == 1 {
				all[i] = true
			}
		}
		return all
	}
	now = counts{total: number("total"), ran: bits(keys.BatchRan(k.id)), done: bits(keys.BatchDone(k.id)), closed: r.HGet(key, "closed") == "1"}
	for i, event := range events {
		now.fired[i] = r.HGet(key, event) != ""
	}
	now.success = now.fired[1]
	if s, err := strconv.ParseFloat(r.HGet(key, "cancelled"), 64); err == nil {
		now.cancelled = time.UnixMicro(int64(s * 1e6))
	}
	if up, ok := job.ParseInBatch(r.HGet(key, "parent")); ok {
		now.up, now.at = up.ID, int(up.Index)
	}
	for _, part := range []string{key, keys.BatchRan(k.id), keys.BatchDone(k.id), keys.BatchChildren(k.id)} {
		if ttl := r.TTL(part); r.Exists(part) && (ttl <= 0 || ttl > 31*24*time.Hour || now.success && ttl > 24*time.Hour+time.Second) {
			b.w.fail("%s of %s lives for %s", part, k.name, ttl)
		}
	}
	return now, number("pending"), number("unrun"), true
}

// lookAtBatches holds what Redis says of batches against the account.
func (b *book) lookAtBatches(o *owner, words []string, before map[string][]string) {
	if len(b.w.plan.Batches) == 0 {
		return
	}
	l := &b.batches
	l.due = map[*state]bool{}
	step := stepOf(words)
	if !changesBatches(step) && b.commands%16 != 0 { // no other one may change a batch: a look now and then will do
		return
	}
	entered := map[*state]bool{}
	for _, s := range b.allJobs() {
		old, now := before[s.name], b.where[s.name]
		if s.callbackOf != nil && len(minus(now, old)) > 0 && len(minus(old, now)) == 0 && changesBatches(step) {
			entered[s] = true
			if s.entered++; s.entered > 1 {
				s.copies, s.hits = s.copies+1, s.hits+1
			}
		}
	}
	if b.w.fell.IsZero() {
		b.learnOf(o, words, before)
	} else {
		b.dropped(o, step, before)
	}
	for _, k := range l.all {
		now, pending, unrun, there := b.redisCounts(k)
		if !there {
			if k.there && b.w.fell.IsZero() {
				b.w.fail("%s is gone by %s", k.name, step)
			}
			k.there = false
			continue
		}
		if b.w.fell.IsZero() {
			if text, want := now.text(), k.counts.text(); text != want {
				b.w.fail("%s is %s behind %s, expected %s", k.name, text, step, want)
			}
		} else {
			b.fits(k, now, step)
		}
		if pending != now.total-len(now.done) || unrun != now.total-len(now.ran) {
			b.w.fail("%s has %d jobs, %d of them have run and %d are done, and it says that %d have not run and %d are pending, by %s", k.name, now.total, len(now.ran), len(now.done), unrun, pending, step)
		}
		k.there, k.counts = true, now
	}
	for _, s := range b.allJobs() {
		if s.callbackOf != nil && entered[s] != l.due[s] {
			b.w.fail("the callback %s of %s: enters by %s is %t, expected %t, of %s", s.name, s.callbackOf.name, step, entered[s], l.due[s], s.callbackOf.counts.text())
		}
	}
}

func changesBatches(step string) bool {
	return step == "settle" || step == "joinbatch" || step == "countbatch" || step == "reroute"
}

func (c counts) text() string {
	of := func(m map[int]bool) []int { return slices.Sorted(maps.Keys(m)) }
	return fmt.Sprintf("total %d, ran %v, done %v, closed %t, fired %v, cancelled %t, in %s:%d", c.total, of(c.ran), of(c.done), c.closed, c.fired, !c.cancelled.IsZero(), c.up, c.at)
}

// fits judges what has become of a batch after a fallback, and which of its callbacks are due. One that is and does not enter was
// refused by its queue.
func (b *book) fits(k *batch, now counts, step string) {
	unpushed := b.unpushed(k, now)
	for i := range events {
		if s := k.on[i]; unpushed[i] && !k.refused[i] && (s == nil || b.w.redis.Type(keys.Queue(s.plan.Queue)) != "string") {
			b.w.fail("%s of %s is not pushed by %s: %s", events[i], k.name, step, now.text())
		}
		k.refused[i] = unpushed[i]
		if !now.fired[i] || k.there && k.fired[i] {
			continue
		}
		if k.on[i] != nil {
			b.batches.due[k.on[i]] = true
		}
		if i == 0 && (!now.closed || len(now.ran) < now.total) || i == 1 && (!now.closed || len(now.done) < now.total) || !now.cancelled.IsZero() {
			b.w.fail("%s of %s is pushed by %s too early: %s", events[i], k.name, step, now.text())
		}
	}
}

// unpushed are the callbacks that a batch has still to push: nothing but a queue that refuses one keeps it from that.
func (b *book) unpushed(k *batch, now counts) (all [3]bool) {
	if !now.cancelled.IsZero() || now.success {
		return all
	}
	all[0] = now.closed && len(now.ran) >= now.total && !now.fired[0]
	all[1] = now.closed && len(now.done) >= now.total && now.fired[0]
	all[2] = b.w.redis.HGet(keys.Batch(k.id), "died") != "" && !now.fired[2]
	return all
}

// batchesFellBack notes what Redis knows of batches now.
func (b *book) batchesFellBack() {
	b.batches.fell = true
	for _, k := range b.batches.all {
		k.wasCancelled = k.wasCancelled || !k.cancelled.IsZero()
		if k.counts, _, _, k.there = b.redisCounts(k); k.there {
			k.refused = b.unpushed(k, k.counts)
		}
	}
}

// calledOffLate judges a run of a job whose batch was cancelled a while ago.
func (b *book) calledOffLate(o *owner, s *state) {
	k := b.batches.of(s.in.ID)
	if k == nil || k.cancelled.IsZero() || time.Since(k.cancelled) < 3*time.Second || !o.healthyOwner() || !b.settled(3*lease) {
		return
	}
	b.w.fail("%s begins in %s, and %s was cancelled %s ago", s.name, o.name, k.name, time.Since(k.cancelled))
}

// batchesLeft judges what is there of batches when every job has ended.
func (b *book) batchesLeft() {
	for _, k := range b.batches.all {
		now, _, _, there := b.redisCounts(k)
		if !there || !now.cancelled.IsZero() {
			continue
		}
		switch {
		case !now.closed:
			b.w.fail("after the end %s is open", k.name)
			continue
		case b.unpushed(k, now) != [3]bool{}:
			b.w.fail("after the end a callback of %s is missing: %s", k.name, now.text())
		case !now.success && !b.pends(k):
			b.w.fail("after the end %s waits for nothing: %s", k.name, now.text())
		}
		b.w.seen[fmt.Sprintf("batch at the end, success %t", now.success)]++
	}
	for _, s := range b.allJobs() {
		k := b.batches.of(s.in.ID)
		if k == nil || int(s.in.Index) >= k.total || s.ranInRuby() || s.next != nil || len(b.where[s.name]) > 0 && !s.dead || s.done == 0 && !s.dead {
			continue
		}
		if now, _, _, _ := b.redisCounts(k); !now.ran[int(s.in.Index)] || !s.dead && !s.plan.Drops && !now.done[int(s.in.Index)] {
			b.w.fail("after the end %s, job %d of %s, is not counted: %s", s.name, s.in.Index, k.name, now.text())
		}
	}
}
