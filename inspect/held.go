package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/script"
)

// HeldBy says what holds a job.
type HeldBy struct {
	Rule  string    // NAME or NAME:KEY of the limit
	Rules []string  // of all limits that the job is under
	JID   string    // of the job; of one without a jid a text that stands for its bytes
	Since time.Time // when it was held first
}

// Jobs are the jobs that the rule holds, those with the lowest enqueued_at are the next. They are deleted, killed and released; what
// retries or schedules them is an error.
func (r *LimitRule) Jobs() *JobSet {
	return &JobSet{Name: keys.Held(r.base, r.ID), rule: r, i: r.i}
}

// HeldRules walks through the rules that hold jobs, in no order: without their slots and ages. A rule may begin or
// end to hold jobs meanwhile.
func (i *Inspector) HeldRules(ctx context.Context) iter.Seq2[*LimitRule, error] {
	return func(yield func(*LimitRule, error) bool) {
		fail := func(err error) { yield(nil, fmt.Errorf("list what limits hold: %w", err)) }
		bases, err := i.holdingBases(ctx)
		if err != nil {
			fail(err)
			return
		}
		for _, b := range bases {
			names, err := i.db().ZRange(ctx, keys.HeldRules(b.key), 0, -1).Result() // at one instant: their scores change
			if err != nil {
				fail(err)
				return
			}
			for page := range slices.Chunk(names, scanPage) {
				cmds := make([]redis.Cmder, len(page))
				for n, rule := range page {
					cmds[n] = redis.NewIntCmd(ctx, "zcard", keys.Held(b.key, rule))
				}
				if err := i.pipelined(ctx, cmds); err != nil {
					fail(err)
					return
				}
				for n, rule := range page {
					r := i.limitRule(b, rule, false)
					if r.Held = cmds[n].(*redis.IntCmd).Val(); r.Held > 0 && !yield(r, nil) {
						return
					}
				}
			}
		}
	}
}

// holdingBases are the bases with rules that hold jobs.
func (i *Inspector) holdingBases(ctx context.Context) ([]limitBase, error) {
	bases, err := i.limitBases(ctx)
	if err != nil || len(bases) < 2 {
		return bases, err
	}
	holding := make([]redis.Cmder, len(bases))
	for n, b := range bases {
		holding[n] = redis.NewIntCmd(ctx, "exists", keys.HeldRules(b.key))
	}
	err = i.pipelined(ctx, holding)
	var all []limitBase
	for n, b := range bases {
		if holding[n].(*redis.IntCmd).Val() > 0 {
			all = append(all, b)
		}
	}
	return all, err
}

// HeldJobs walks through all jobs that limits hold, those of a rule together, the next first.
func (i *Inspector) HeldJobs(ctx context.Context) iter.Seq2[*SortedEntry, error] {
	return func(yield func(*SortedEntry, error) bool) {
		for r, err := range i.HeldRules(ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			for e, err := range r.Jobs().upwards(ctx) {
				if !yield(e, err) || err != nil {
					return
				}
			}
		}
	}
}

// FindHeld returns the job with that id that a limit holds, or ErrNotFound.
func (i *Inspector) FindHeld(ctx context.Context, jid string) (*SortedEntry, error) {
	for r, err := range i.HeldRules(ctx) {
		if err != nil {
			return nil, err
		}
		if e, err := r.Jobs().FindJob(ctx, jid); !errors.Is(err, ErrNotFound) {
			return e, err
		}
	}
	return nil, fmt.Errorf("find %s among the jobs that limits hold: %w", jid, ErrNotFound)
}

// HeldSize is how many jobs limits hold.
func (i *Inspector) HeldSize(ctx context.Context) (n int64, err error) {
	for r, err := range i.HeldRules(ctx) {
		if err != nil {
			return n, err
		}
		n += r.Held
	}
	return n, nil
}

// Release lets up to most of the jobs in that the rule holds, the next first, for which there is no room: the limit is exceeded by as many. Those of
// a paused queue go back to it. It returns how many there were.
func (r *LimitRule) Release(ctx context.Context, most int) (int, error) {
	return r.release(ctx, most, false)
}

// SendBack sends the jobs that the rule holds back to their queues, for processes that know no limits, such as those of Ruby. Processes of troupe that
// still run hold them again.
func (r *LimitRule) SendBack(ctx context.Context) (int, error) {
	return r.release(ctx, int(max(r.Held, releasePage)), true)
}

// releasePage is how many jobs are moved in one step.
const releasePage = 500

func (r *LimitRule) release(ctx context.Context, most int, back bool) (n int, err error) {
	for n < most && err == nil {
		some := 0
		if some, err = job.Release(ctx, orNone(r.i).db(), r.base, r.ID, min(most-n, releasePage), back); some == 0 && err == nil {
			err = r.unmoved(ctx)
			break
		}
		n += some
	}
	if err != nil {
		err = fmt.Errorf("limit %s: %w", r.ID, err)
	}
	return n, err
}

// unmoved is why Redis writes nothing, if that is so: the step that lets jobs in only leaves them.
func (r *LimitRule) unmoved(ctx context.Context) error {
	rdb := orNone(r.i).db()
	n, err := rdb.ZCard(ctx, keys.Held(r.base, r.ID)).Result()
	if err == nil && n > 0 {
		err = rdb.ZAdd(ctx, keys.HeldRules(r.base), redis.Z{Score: 0, Member: r.ID}).Err()
	}
	return err
}

// unmoved is why Redis does not let a member in, if it is there still.
func (s *JobSet) unmoved(ctx context.Context, member string) error {
	rdb := s.in().db()
	score, err := rdb.ZScore(ctx, s.Name, member).Result()
	if errors.Is(err, redis.Nil) {
		return nil
	}
	if err == nil {
		err = rdb.ZAddXX(ctx, s.Name, redis.Z{Score: score, Member: member}).Err() // writes nothing, and fails as the step did
	}
	return cmp.Or(err, errors.New("its queue does not take it"))
}

// Release lets a job in that a limit holds, though there is no room: the limit is exceeded by one. That of a paused queue goes back to it.
func (e *SortedEntry) Release(ctx context.Context) (Outcome, error) {
	switch {
	case e.Set == nil:
		return Gone, errNotMade
	case e.Set.rule == nil:
		return Gone, e.Set.wrap("release an entry", errors.New("no limit holds it"))
	}
	n := 0
	all, err := e.whole(ctx)
	if err == nil && all != nil {
		n, err = job.ReleaseOne(ctx, e.Set.in().db(), e.Set.rule.base, e.Set.rule.ID, all.stored())
		if err == nil && n == 0 {
			err = e.Set.unmoved(ctx, all.stored())
		}
	}
	if err != nil {
		return Gone, e.Set.wrap("release an entry", err)
	}
	e.gone.Store(true)
	return outcomeOf(n > 0), nil
}

// Ahead is how many entries of its set have a lower score, or the same and lower bytes: of a held job how many its limit lets in before
// it. It is -1 if the entry is not there any more.
func (e *SortedEntry) Ahead(ctx context.Context) (int64, error) {
	if e.Set == nil {
		return -1, errNotMade
	}
	n, err := e.Set.rank(ctx, e.text, e.Score, true)
	if err != nil {
		return -1, e.Set.wrap("find the rank of an entry", err)
	}
	return n, nil
}

// Held reports whether the set is of the jobs that a rule of a limit holds.
func (s *JobSet) Held() bool { return s.rule != nil }

// refuse is why held jobs are not moved like those of other sets.
func (s *JobSet) refuse() error {
	if s.rule == nil {
		return nil
	}
	return errors.New("a limit holds these jobs: they are released, deleted or killed")
}

// upwards walks through the set, the lowest score first.
func (s *JobSet) upwards(ctx context.Context) iter.Seq2[*SortedEntry, error] {
	return func(yield func(*SortedEntry, error) bool) {
		w := setWalk{set: s, up: true, score: math.Inf(-1)}
		w.each(ctx, yield)
	}
}

// record reads a held job: a member of the zset has the job behind its header.
func (r *LimitRule) record(t text) (JobRecord, *HeldBy) {
	by := &HeldBy{Rule: r.ID}
	end := strings.IndexByte(t.head, '\n') + 1
	head, ok := job.ParseHeld(t.head)
	if !ok {
		rec := recordOf(t, "")
		return rec, by
	}
	rec := recordOf(text{head: t.head[end:], tail: t.tail, size: t.size - int64(end)}, strings.TrimPrefix(head.List, keys.Queue("")))
	rec.text = t
	by.Rules, by.JID = head.Rules, head.JID
	seq, _, _ := strings.Cut(t.head, ".")
	if micros, err := strconv.ParseInt(seq, 10, 64); err == nil {
		by.Since = time.UnixMicro(micros).UTC()
	}
	return rec, by
}

// killHeldOnCluster is kill of held jobs where the dead set is in another slot: they are written there first. One that is let in
// meanwhile is taken out of it again.
func (s *JobSet) killHeldOnCluster(ctx context.Context, entries []*SortedEntry, now time.Time, trim limits.Trim) ([]bool, error) {
	rdb, there := s.in().db(), make([]bool, len(entries))
	for k, e := range entries {
		text := e.deadText(now)
		if err := rdb.ZScore(ctx, s.Name, e.stored()).Err(); errors.Is(err, redis.Nil) {
			continue
		} else if err != nil {
			return nil, err
		}
		added, err := rdb.Do(ctx, "zadd", keys.Dead, "nx", scores.Format(scores.Of(now)), text).Int()
		if err != nil {
			return nil, err
		}
		n, err := rdb.ZRem(ctx, s.Name, e.stored()).Result()
		if err != nil { // whether it was removed is not known: the copy stays
			return nil, err
		}
		if there[k] = n > 0; there[k] {
			s.in().free(ctx, []*job.Lock{e.lock(true)})
		} else if added > 0 {
			if err := rdb.ZRem(context.WithoutCancel(ctx), keys.Dead, text).Err(); err != nil {
				return nil, err
			}
		}
	}
	gone(entries)
	pipe := rdb.Pipeline()
	script.Trim(ctx, pipe, keys.Dead, trim)
	_, err := pipe.Exec(ctx)
	return there, err
}
