package inspect

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/script"
)

//go:embed move.lua
var moveSource string

var moveScript = script.New("inspect.move", script.Bound+script.Unlock+moveSource)

// QueuedJob is a job in a queue.
type QueuedJob struct {
	JobRecord
	q    *Queue
	gone atomic.Bool // as far as we know
}

// Job returns the job with these bytes, to act on it, whether or not it is in the queue.
func (q *Queue) Job(raw string) *QueuedJob {
	return &QueuedJob{JobRecord: newRecord(raw, q.Name), q: q}
}

func (q *Queue) job(t text) *QueuedJob { return &QueuedJob{JobRecord: recordOf(t, q.Name), q: q} }

// Delete removes this very job, by its bytes, and frees the lock of a unique job. It returns Gone if it has been
// fetched or removed before.
func (j *QueuedJob) Delete(ctx context.Context) (Outcome, error) {
	if j.q == nil {
		return Gone, errNotMade
	}
	there := []bool{false}
	all, err := j.whole(ctx)
	if err == nil && all != nil {
		there, err = j.q.in().remove(ctx, j.q.key(), fromQueueHead, []*JobRecord{&all.JobRecord})
	}
	if err != nil {
		return Gone, j.q.wrap("delete a job", err)
	}
	j.gone.Store(true)
	return outcomeOf(there[0]), nil
}

// Kill moves this very job into the dead set, as SortedEntry.Kill does, in one step. It returns
// Gone if it has been fetched or removed before.
//
// On a cluster the queue and the dead set are on different nodes, and Kill takes two steps, of
// which the second removes the job from the queue: a job that a process takes, or that Kill fails
// at, between the two may be in the dead set, too.
func (j *QueuedJob) Kill(ctx context.Context) (Outcome, error) {
	if j.q == nil {
		return Gone, errNotMade
	}
	if j.Cut() {
		return j.onWhole(ctx, "kill a job", func(all *QueuedJob) (Outcome, error) { return all.Kill(ctx) })
	}
	now := time.Now()
	text := j.Raw
	if j.Err != nil {
		text = string(job.KeepNotAJob([]byte(j.Raw), j.q.Name, now, troupe.TimestampsFloat))
	}
	score := scores.Format(scores.Of(now))
	trim := j.q.in().trim(now)
	rdb := j.q.in().db()
	if !redisconn.OnCluster(rdb) {
		names, args := []string{j.q.key(), keys.Dead}, []any{score, trim.Text()}
		if lock := j.lock(false); lock != nil {
			names, args = append(names, lock.Key), append(args, lock.JID)
		}
		killed, err := j.move(ctx, "kill a job", names, text, args...)
		j.q.in().count(ctx, []*JobRecord{&j.JobRecord}, []bool{killed == Done}, job.BatchDied)
		j.q.in().keepEnds(ctx, job.EndedDead, []*JobRecord{&j.JobRecord}, []bool{killed == Done})
		return killed, err
	}
	return j.moveInTwo(ctx, "kill a job", func() (undo func(context.Context) error, err error) {
		added, err := rdb.Do(ctx, "zadd", keys.Dead, "nx", score, text).Int()
		return func(ctx context.Context) error {
			if added == 0 { // it was there before
				return nil
			}
			return rdb.ZRem(ctx, keys.Dead, text).Err()
		}, err
	}, func() error {
		pipe := rdb.Pipeline()
		script.Trim(ctx, pipe, keys.Dead, trim)
		_, err := pipe.Exec(ctx)
		j.q.in().free(ctx, []*job.Lock{j.lock(true)})
		return err
	})
}

// Move puts this very job into another queue, in one step, behind those that wait there. Its field
// "queue" names that queue from then on, so that a retry goes there, too; its other fields stay. It
// returns Gone if it has been fetched or removed before. Either queue may be paused, and the other
// one need not exist.
//
// On a cluster the queues are on different nodes, and Move takes two steps, of which the second
// removes the job from its queue: a job that a process takes, or that Move fails at, between the
// two may be in both queues. So it runs at least once there, as after a crash.
func (j *QueuedJob) Move(ctx context.Context, to *Queue) (Outcome, error) {
	if j.q == nil {
		return Gone, errNotMade
	}
	const verb = "move a job"
	if j.Cut() {
		return j.onWhole(ctx, verb, func(all *QueuedJob) (Outcome, error) { return all.Move(ctx, to) })
	}
	switch {
	case j.Err != nil:
		return Gone, j.q.wrap(verb, j.Err)
	case to.Name == j.q.Name:
		return Gone, j.q.wrap(verb, errors.New("it is in that queue"))
	}
	if err := to.Takes(); err != nil {
		return Gone, j.q.wrap(verb, err)
	}
	p := j.Payload.Clone()
	p.SetString("queue", to.Name)
	text, rdb := string(p.Bytes()), j.q.in().db()
	if !redisconn.OnCluster(rdb) {
		return j.move(ctx, verb, []string{j.q.key(), to.key(), keys.Queues}, text, to.Name)
	}
	return j.moveInTwo(ctx, verb, func() (undo func(context.Context) error, err error) {
		return func(ctx context.Context) error { return rdb.LRem(ctx, to.key(), 1, text).Err() }, rdb.LPush(ctx, to.key(), text).Err()
	}, func() error {
		_ = rdb.SAdd(ctx, keys.Queues, to.Name).Err() // a list for people: the job is there without
		return nil
	})
}

// Takes returns why no job can be moved into the queue; nil if one can.
func (q *Queue) Takes() error {
	if q.Name == "" || strings.HasSuffix(q.Name, keys.SuspectsSuffix) {
		return fmt.Errorf("got the queue %q to move to, expected a name that is not empty and does not end with %s", q.Name, keys.SuspectsSuffix)
	}
	return nil
}

// move moves the job on one server.
func (j *QueuedJob) move(ctx context.Context, verb string, names []string, text string, args ...any) (Outcome, error) {
	n, err := moveScript.Run(ctx, j.q.in().db(), names, append([]any{j.Raw, text}, args...)...).Int()
	if err != nil {
		return Gone, j.q.wrap(verb, err)
	}
	j.gone.Store(true)
	return outcomeOf(n > 0), nil
}

// moveInTwo moves the job between two slots: put puts it where it goes, and then it is taken out
// of its queue. If it is not there any more, what was put is undone.
func (j *QueuedJob) moveInTwo(ctx context.Context, verb string, put func() (undo func(context.Context) error, err error), done func() error) (Outcome, error) {
	rdb := j.q.in().db()
	// Most that are gone are gone before it begins.
	if err := rdb.LPos(ctx, j.q.key(), j.Raw, redis.LPosArgs{}).Err(); err != nil {
		if errors.Is(err, redis.Nil) {
			j.gone.Store(true)
			return Gone, nil
		}
		return Gone, j.q.wrap(verb, err)
	}
	undo, err := put()
	if err != nil {
		return Gone, j.q.wrap(verb, err)
	}
	n, err := rdb.LRem(ctx, j.q.key(), -1, j.Raw).Result()
	if err != nil { // whether it was removed is not known: the copy stays
		return Gone, j.q.wrap(verb, err)
	}
	j.gone.Store(true)
	if n == 0 {
		return Gone, j.q.wrap(verb, undo(context.WithoutCancel(ctx)))
	}
	return Done, j.q.wrap(verb, done())
}
