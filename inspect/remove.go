package inspect

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/script"
)

// This file has what removes jobs, with the locks of those that are unique.

//go:embed remove.lua
var removeSource string

//go:embed clear.lua
var clearSource string

var (
	removeScript = script.New("inspect.remove", script.Unlock+removeSource)
	clearScript  = script.New("inspect.clear", clearSource)
)

// Where a job is removed from.
const (
	fromSet       = "set"
	fromQueueHead = "head" // of a list: it is looked for from there
	fromQueueTail = "tail"
)

// lock is the lock that ends with the job; nil if it has none.
func (r *JobRecord) lock(cluster bool) *job.Lock {
	if l := job.LockOf(r.Payload, cluster); l != nil && l.EndsWithJob() {
		return l
	}
	return nil
}

// together tells whether a script may have both keys.
func together(rdb redis.UniversalClient, a, b string) bool {
	return !redisconn.OnCluster(rdb) || keys.HashTag(a) == keys.HashTag(b)
}

// remove removes whole jobs from a set or list, each in one step with its lock, and returns which were there. In a batch they count as done. On a
// cluster a lock that lies in another slot is freed in a second step.
func (i *Inspector) remove(ctx context.Context, key, from string, jobs []*JobRecord) ([]bool, error) {
	there, err := i.takeOut(ctx, key, from, jobs)
	i.count(ctx, jobs, there, job.BatchDone)
	if key != keys.Dead { // there it has ended before
		i.keepEnds(ctx, job.EndedDeleted, jobs, there)
	}
	return there, err
}

// keepEnds tells of jobs that have ended so, of those that were there: see client.Await.
func (i *Inspector) keepEnds(ctx context.Context, outcome string, jobs []*JobRecord, there []bool) {
	var ended [][]byte
	for k, was := range there {
		if was {
			ended = append(ended, []byte(jobs[k].stored()))
		}
	}
	job.KeepEnds(ctx, i.db(), outcome, ended...)
}

// count counts the jobs that were there in their batches, in a step of its own. One that it cannot count is missing in its batch.
func (i *Inspector) count(ctx context.Context, jobs []*JobRecord, there []bool, event job.BatchEvent) {
	if redisconn.OnCluster(i.db()) { // there are no batches
		return
	}
	var counts []job.Count
	for k, was := range there {
		if in, ok := job.BatchOf(jobs[k].Payload); ok && was {
			counts = append(counts, job.Count{InBatch: in, Event: event})
		}
	}
	_ = job.CountBatch(ctx, i.db(), counts...)
}

func (i *Inspector) takeOut(ctx context.Context, key, from string, jobs []*JobRecord) ([]bool, error) {
	there := make([]bool, len(jobs))
	rdb := i.db()
	cluster := redisconn.OnCluster(rdb)
	pipe, removed := rdb.Pipeline(), make([]*redis.IntCmd, len(jobs))
	names, args := []string{key}, []any{from}
	var locked []int
	var apart []*job.Lock
	for k, r := range jobs {
		lock := r.lock(cluster)
		if lock != nil && together(rdb, key, lock.Key) {
			names, args, locked = append(names, lock.Key), append(args, r.stored(), lock.JID), append(locked, k)
			continue
		}
		switch from {
		case fromSet:
			removed[k] = pipe.ZRem(ctx, key, r.stored())
		case fromQueueHead:
			removed[k] = pipe.LRem(ctx, key, 1, r.stored())
		default:
			removed[k] = pipe.LRem(ctx, key, -1, r.stored())
		}
	}
	if pipe.Len() > 0 {
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, err
		}
	}
	for k, cmd := range removed {
		if cmd == nil {
			continue
		}
		if there[k] = cmd.Val() > 0; there[k] {
			apart = append(apart, jobs[k].lock(cluster))
		}
	}
	i.free(ctx, apart)
	if len(locked) == 0 {
		return there, nil
	}
	reply, err := removeScript.Run(ctx, rdb, names, args...).Text()
	if err != nil {
		return nil, err
	}
	done, err := flags(reply, len(locked))
	for n := range done {
		there[locked[n]] = done[n]
	}
	return there, err
}

// free frees locks whose jobs are gone, in steps of their own. A lock that it cannot free expires.
func (i *Inspector) free(ctx context.Context, locks []*job.Lock) {
	for _, l := range locks {
		if l != nil {
			_, _ = job.FreeLock(ctx, i.db(), l.Key, l.JID)
		}
	}
}

// What a clear looks at in one step.
const (
	clearPage  = 1000
	clearBytes = 1 << 20
)

// clear deletes as many jobs of a queue or set as it has, in pages so that Redis answers others meanwhile, and returns
// how many it has deleted. names are the list of queues and the name of the queue, if it is to be taken off.
func (i *Inspector) clear(ctx context.Context, key, from string, size int64, queues ...string) (n int64, err error) {
	names, name := append([]string{key}, queues...), ""
	if len(queues) > 0 {
		names, name = names[:2], queues[1]
	}
	for {
		reply, err := clearScript.Run(ctx, i.db(), names, from, min(clearPage, size), clearBytes, name).StringSlice()
		if err == nil && len(reply) == 0 {
			err = errors.New("got no value, want one")
		}
		if err != nil {
			return n, err
		}
		clean := number(reply[0])
		n, size = n+clean, size-clean
		var some []*JobRecord
		for _, raw := range reply[1:] {
			r := newRecord(raw, "")
			some = append(some, &r)
		}
		there, err := i.remove(ctx, key, from, some)
		if err != nil {
			return n, err
		}
		for _, done := range there {
			if size--; done {
				n++
			}
		}
		if len(some) == 0 && (clean == 0 || size <= 0) {
			return n, nil
		}
		size = max(0, size)
	}
}

// taken is the lock that a job takes on its way from the dead set into a queue; nil if it takes none. A retry or a scheduled job has its own, and
// one until the start has run.
func (s *JobSet) taken(p *troupe.Payload) *job.Lock {
	if s.Name != keys.Dead {
		return nil
	}
	if l := job.LockOf(p, redisconn.OnCluster(s.in().db())); l != nil && l.Until == troupe.UntilDone {
		return l
	}
	return nil
}

// settle notes what became of the entries of a list: '1' moved, '0' gone, '2' still there, since another job holds
// the lock. holders begins with those of this list.
func (l *list) settle(digits string, holders *[]string) error {
	entries, locks := l.entries, l.locks
	if len(digits) != len(entries) || strings.Trim(digits, "012") != "" {
		return fmt.Errorf("got %q, want %d flags", digits, len(entries))
	}
	if n := strings.Count(digits, "2"); n > len(*holders) {
		return fmt.Errorf("got %d holders, want %d", len(*holders), n)
	}
	l.entries, l.locks, l.payloads = nil, nil, nil
	for k, e := range entries {
		if digits[k] == '2' {
			l.held = append(l.held, &client.DuplicateError{Holder: (*holders)[0], Lock: locks[k].Key})
			*holders = (*holders)[1:]
			continue
		}
		l.entries, l.there = append(l.entries, e), append(l.there, digits[k] == '1')
	}
	return nil
}

// extend has the lock that a job holds which waits until then last for that, and for its own time after it.
func (i *Inspector) extend(ctx context.Context, r *JobRecord, at time.Time) {
	if l := job.LockOf(r.Payload, redisconn.OnCluster(i.db())); l != nil && l.EndsWithJob() {
		l.For += max(0, time.Until(at))
		_ = job.RenewLocks(ctx, i.db(), []*job.Lock{l})
	}
}
