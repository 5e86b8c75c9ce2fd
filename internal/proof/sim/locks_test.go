package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
)

// In a part of the plans jobs are unique. The book holds each lock against the jobs: who has taken one holds it until
// its end, nobody else takes it or enters meanwhile, and at the end of the world no lock is without a job.

// Unique is what makes a job of a plan unique.
type Unique struct {
	Group  int // 0: it is not
	Until  troupe.UniqueUntil
	For    time.Duration
	Across bool
}

// lock is what the book knows of one in Redis.
type lock struct {
	holder *state
	ends   time.Time // if nothing moves its end
	asked  time.Time // since it has refused a push and has no job
	free   bool      // it is free, and its holder goes on: of UntilStart, or its time is over
}

// locks is the part of the book that is about them.
type locks struct {
	at     map[string]*lock  // by key
	keys   map[string]string // of what is the same; see same
	before map[string]string // key -> jid, before the last command
	now    map[string]string // and after it
}

// one is the class of unique jobs.
type one struct {
	Group int `arg:"0"`
}

func (one) Class() string { return "One" }

// same names what jobs of one lock have in common.
func (s *state) same() string {
	queue := s.plan.Queue
	if s.plan.Unique.Across {
		queue = ""
	}
	return fmt.Sprint(s.args().Class(), s.args(), queue)
}

func (s *state) unique() bool { return s.plan.Unique.Group != 0 }

// options are those of the push of a job.
func (s *state) options() []client.Option {
	opts := []client.Option{client.JID(s.jid()), client.Queue(s.plan.Queue)}
	if s.plan.In > 0 {
		opts = append(opts, client.In(s.plan.In))
	}
	if s.plan.Kept {
		opts = append(opts, client.KeepResult(keptFor))
	}
	if u := s.plan.Unique; u.Group != 0 {
		opts = append(opts, client.Unique(troupe.Unique{Until: u.Until, For: u.For, Across: u.Across}))
	}
	return opts
}

// readLock notes the key of the lock of a job that is seen for the first time.
func (b *book) readLock(s *state, payload string) {
	p, err := troupe.ParsePayload([]byte(payload))
	if err != nil {
		panic(err)
	}
	if l := job.LockOf(p, b.w.plan.Cluster); l != nil {
		b.locks.keys[s.same()] = l.Key
		s.lock = l.Key
	}
}

// lookAtLocks compares what a command has changed of the locks with what it may.
func (b *book) lookAtLocks(script string, before map[string][]string) {
	r, l := b.w.redis, &b.locks
	l.before, l.now = l.now, map[string]string{}
	for _, key := range r.Keys() {
		if !strings.HasPrefix(key, keys.LockPrefix) {
			continue
		}
		jid, _ := r.Get(key)
		l.now[key] = jid
		if r.TTL(key) <= 0 {
			b.w.fail("the lock of %s never ends", b.holderOf(jid).name)
		}
	}
	for _, key := range b.lockKeys() {
		b.changed(script, key, before)
	}
	for _, s := range b.allJobs() {
		if s.unique() && s.lock != "" && !s.seenIn && len(b.where[s.name]) > 0 {
			s.seenIn = true
			if k := l.at[s.lock]; b.w.fell.IsZero() && !b.w.plan.Cluster && (k == nil || k.holder != s) {
				b.w.fail("%s enters by %s, and does not hold its lock", s.name, script)
			}
		}
	}
}

// lockKeys are those of all locks, in order.
func (b *book) lockKeys() (all []string) {
	for key := range b.locks.at {
		all = append(all, key)
	}
	for key := range b.locks.now {
		if b.locks.at[key] == nil {
			all = append(all, key)
		}
	}
	slices.Sort(all)
	return all
}

func (b *book) holderOf(jid string) *state { return b.jobs["j"+strings.TrimLeft(jid, "0")] }

// changed judges what has become of a lock.
func (b *book) changed(script, key string, before map[string][]string) {
	k, jid := b.locks.at[key], b.locks.now[key]
	over := k != nil && !time.Now().Before(k.ends)
	switch {
	case k != nil && jid == k.holder.jid(): // its end may have moved
		k.ends, k.free = time.Now().Add(b.w.redis.TTL(key)), false
		if s := k.holder; script == "settle" && s.plan.Unique.Until == troupe.UntilDone && time.Until(k.ends) < s.plan.Unique.For &&
			slices.Contains(b.where[s.name], keys.Retry) && !slices.Contains(before[s.name], keys.Retry) {
			b.w.fail("%s is to be retried, and its lock lives for %s", s.name, time.Until(k.ends))
		}
	case k != nil && jid == "" && !k.free:
		k.free = true
		s := k.holder
		switch {
		case over:
			b.w.seen["lock whose time was over"]++
		case b.w.plan.Cluster && !s.pushed: // the lock was taken first, and the queue has refused the job
			b.w.seen["lock freed, its job refused"]++
		case s.plan.Unique.Until == troupe.UntilPeriod:
			b.w.fail("the lock of %s is freed by %s before its period is over", s.name, script)
		case s.plan.Unique.Until == troupe.UntilStart && b.claimed(s):
			b.w.seen["lock freed at a start"]++
		case s.hand != "" && script == "locks": // Ruby's workers here have no heartbeat, so the job was missed twice
			delete(b.locks.at, key)
			b.w.seen["lock freed of a job that Ruby runs"]++
		case b.waits(s) && s.copies == 0 && len(s.gaps) == 0:
			b.w.fail("the lock of %s is freed by %s, and the job stands in %s", s.name, script, strings.Join(b.where[s.name], " "))
		default:
			b.w.seen["lock freed with its job"]++
		}
	case jid != "":
		s := b.holderOf(jid)
		if k != nil && !over && b.waits(k.holder) && k.holder.copies == 0 && len(k.holder.gaps) == 0 && (k.holder.plan.Unique.Until != troupe.UntilStart || !k.free) {
			b.w.fail("two holders: %s takes the lock of %s by %s, which stands in %s", s.name, k.holder.name, script, strings.Join(b.where[k.holder.name], " "))
		}
		b.locks.at[key] = &lock{holder: s, ends: time.Now().Add(b.w.redis.TTL(key))}
		b.locks.keys[s.same()] = key // on a cluster the job may come later, or never
		b.w.seen["lock taken"]++
	}
}

// waits reports whether a job waits or is in progress.
func (b *book) waits(s *state) bool {
	return s.hand != "" || slices.ContainsFunc(b.where[s.name], func(place string) bool { return place != keys.Dead })
}

func (b *book) claimed(s *state) bool {
	return slices.ContainsFunc(b.where[s.name], func(place string) bool { return !isNoClaim(place) })
}

// locksFellBack notes which locks Redis has now.
func (b *book) locksFellBack() {
	b.locks.at, b.locks.now = map[string]*lock{}, map[string]string{}
	r := b.w.redis
	for _, key := range r.Keys() {
		if !strings.HasPrefix(key, keys.LockPrefix) {
			continue
		}
		jid, _ := r.Get(key)
		b.locks.now[key] = jid
		b.locks.at[key] = &lock{holder: b.holderOf(jid), ends: time.Now().Add(r.TTL(key))}
	}
}

// isDuplicate reports whether a job that a run has pushed may have been left out of the last command.
func (b *book) isDuplicate(s *state) bool {
	key := b.locks.keys[s.same()]
	if !s.unique() || key == "" {
		return false
	}
	before, now := b.locks.before[key], b.locks.now[key]
	return before != "" && before != s.jid() || now != "" && now != s.jid()
}

// pushedAs holds what the client was told against what is in Redis.
func (b *book) pushedAs(s *state, err error) {
	var dup *client.DuplicateError
	if !s.unique() || !b.w.fell.IsZero() {
		return
	}
	switch {
	case errors.As(err, &dup):
		b.w.seen["duplicate refused"]++
		if s.pushed {
			b.w.fail("%s is in Redis, and its push was told that it is a duplicate", s.name)
		}
	case err == nil && !s.pushed:
		b.w.fail("%s is not in Redis, and its push was told nothing", s.name)
	}
}

// orphans is how many locks are to be freed: their jobs are gone, and they have refused a push. Such a lock is freed
// within two minutes of the last thing that has happened.
func (b *book) orphans() (n int) {
	asked, _ := b.w.redis.HKeys(keys.Conflicts)
	for _, key := range asked {
		k := b.locks.at[key]
		if k == nil || b.waits(k.holder) || !b.w.redis.Exists(key) {
			continue
		}
		if n++; k.asked.IsZero() {
			k.asked = time.Now()
		}
		since := later(k.asked, b.w.refusing)
		for _, p := range b.w.all {
			since = later(since, p.faulted)
		}
		if time.Since(since) > freed {
			b.w.fail("%s, which is gone, still holds a lock %s after a push was refused", k.holder.name, time.Since(k.asked))
		}
	}
	return n
}

// locksLeft judges the locks that are there when every job has ended.
func (b *book) locksLeft() {
	for _, key := range b.lockKeys() {
		k := b.locks.at[key]
		if k == nil || b.locks.now[key] == "" || !time.Now().Before(k.ends) {
			continue
		}
		switch s := k.holder; {
		case s.plan.Unique.Until == troupe.UntilPeriod, s.ruby, s.dead, s.copies > 0, !b.w.fell.IsZero():
		case b.w.plan.Cluster && (!s.pushed || s.stray): // it is taken before the job is pushed
		default:
			b.w.fail("after the end %s holds a lock, for %s", s.name, b.w.redis.TTL(key))
		}
	}
}

// started judges the lock of a job whose run begins.
func (b *book) startedWith(s *state) {
	if s.plan.Unique.Until != troupe.UntilStart || s.lock == "" || s.copies > 0 {
		return
	}
	if jid, _ := b.w.redis.Get(s.lock); jid == s.jid() {
		b.w.fail("%s runs, and still holds its lock", s.name)
	}
}

// within pushes a job with the ack of another one.
func (s *state) within(ctx context.Context) error {
	_, err := client.Within(ctx).Push(ctx, s.args(), s.options()...)
	return err
}
