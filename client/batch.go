package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/scores"
)

// BatchOptions are those of a new batch.
type BatchOptions struct {
	// Name is for people; it need not be unique.
	Name string

	// Complete is pushed once when each job of the batch has ended a run, whatever became of it. Success is pushed once
	// when each job is done, Death at the first job that dies. Job makes them: ordinary jobs, with options of
	// their own, but no time, and not unique. The zero Item is none. Their handlers find the batch in JobInfo.CallbackOf of
	// package troupe.
	Complete, Success, Death Item

	// Open keeps the batch open until CloseBatch is called.
	Open bool
}

// Batch pushes jobs into a batch, by every method of Client, until the function that got it has returned. After that each push is a
// *FieldError. It is safe for concurrent use.
type Batch struct{ *Client }

// ID names the batch.
func (b *Batch) ID() string { return b.batch.join.ID }

// Batch makes a batch of the jobs that fn pushes by its argument. A callback of o is pushed once, in the step that
// counts the last of the jobs, whichever process dies meanwhile. When fn has returned nil, the batch is closed, and its callbacks may be
// pushed. Up to 1,000 jobs enter Redis in the step that makes and closes the batch; a larger batch takes a step for each 1,000. So a
// push by b returns before its job is in Redis; its jid is final.
//
// If fn or Redis returns an error, the batch is not closed, and the jobs that are not in Redis yet do not enter. No callback but
// Death is pushed until CloseBatch is called. The ID is returned with each error.
//
// GrowBatch adds jobs until the batch has succeeded. A batch becomes a job of another batch, its parent, if it is made by b.Batch of the
// parent, or in a job of the parent with the client of FromContext or Within. It becomes one in the step that closes it, and
// the parent completes and succeeds after it. A callback of a batch with a parent is a job of the parent. By Within
// the whole batch enters Redis with the ack of the job.
//
// Jobs of a batch must be run by daemons of troupe with the reliable fetcher, in Sidekiq's format: what Ruby runs is not counted. Unique
// jobs cannot enter a batch. Neither can any job on a Redis Cluster.
func (c *Client) Batch(ctx context.Context, o BatchOptions, fn func(b *Batch) error) (id string, err error) {
	id = job.NewID()
	j := &job.Join{ID: id, Open: o.Open}
	if err := c.canBatch(); err != nil {
		return id, fmt.Errorf("batch: %w", err)
	}
	now := time.Now()
	j.Fields = []any{"made", scores.Format(scores.Of(now))}
	if o.Name != "" {
		j.Fields = append(j.Fields, "name", o.Name)
	}
	if c.timestamps == troupe.TimestampsMillis {
		j.Fields = append(j.Fields, "form", "m")
	}
	for _, on := range []struct {
		event string
		item  Item
	}{{"complete", o.Complete}, {"success", o.Success}, {"death", o.Death}} {
		if on.item.args == nil {
			continue
		}
		queue, text, err := c.callback(ctx, on.item, id+":"+on.event, now)
		if err != nil {
			return id, fmt.Errorf("batch: callback %s: %w", on.event, err)
		}
		j.Fields = append(j.Fields, "to:"+on.event, queue, "on:"+on.event, text)
	}
	if c.batch != nil {
		if err := c.batch.begin(ctx); err != nil {
			return id, fmt.Errorf("batch: the batch around it: %w", err)
		}
		j.Parent = c.batch.join.ID
	} else if info, ok := troupe.JobInfoFrom(ctx); ok && (c.kept != nil || c == FromContext(ctx)) {
		j.Parent = info.Batch
	}
	return id, c.inBatch(ctx, j, fn)
}

// GrowBatch adds the jobs that fn pushes by its argument to a batch that is there and has not succeeded, or been cancelled: else the
// error is a *FieldError. A job of the batch may do so while it runs, since the batch does not succeed before that job is done. An open batch
// stays open. See Batch.
func (c *Client) GrowBatch(ctx context.Context, id string, fn func(b *Batch) error) error {
	if err := c.canBatch(); err != nil {
		return fmt.Errorf("grow batch %s: %w", id, err)
	}
	return c.inBatch(ctx, &job.Join{ID: id, Open: true}, fn)
}

// CloseBatch lets a batch end: its callbacks are pushed when their time has come, or now. It is a *FieldError if the batch is not
// there, or has ended. To close one again pushes callbacks that a queue has refused.
func (c *Client) CloseBatch(ctx context.Context, id string) error {
	return c.changeBatch("close", id, func() (bool, error) { return job.CloseBatch(ctx, c.rdb, id) })
}

// CancelBatch cancels a batch. Its waiting jobs are dropped when their turn comes, and its callbacks are not pushed. Jobs that run go on. For its
// parent the batch is done. The batches within it are cancelled one by one after it; after an error call CancelBatch again. The error is a
// *FieldError if the batch does not exist, or has succeeded.
func (c *Client) CancelBatch(ctx context.Context, id string) error {
	return c.changeBatch("cancel", id, func() (bool, error) { return job.CancelBatch(ctx, c.rdb, id) })
}

func (c *Client) changeBatch(verb, id string, change func() (bool, error)) error {
	err := c.canBatch()
	if err == nil {
		var done bool
		if done, err = change(); err == nil && !done {
			err = &FieldError{"batch", strconv.Quote(id), "one that is there and has not succeeded"}
		}
	}
	if err != nil {
		return fmt.Errorf("%s batch %s: %w", verb, id, err)
	}
	return nil
}

func (c *Client) canBatch() error {
	if err := c.Err(); err != nil {
		return err
	}
	if c.taking != nil {
		return &FieldError{"batch", "one of an outbox", "one of a client of Redis: its keys are made there, and not in the transaction"}
	}
	if redisconn.OnCluster(c.rdb) {
		return &FieldError{"batch", "a Redis Cluster", "one server, or shards: the keys of a batch and its queues are in different slots of a Cluster; a chain (PushChain) of one queue works there"}
	}
	return nil
}

// callback is the job of an event, without its last brace and its enqueued_at, and its queue.
func (c *Client) callback(ctx context.Context, item Item, of string, now time.Time) (queue, text string, err error) {
	raw, err := encodeArgs(item.args)
	if err != nil {
		return "", "", err
	}
	o, err := c.apply(item.args, item.opts)
	if err == nil && o.unique != nil {
		err = &FieldError{"Unique", "it for a callback", "a job that is not unique: NotUnique"}
	}
	if err == nil {
		err = o.single("a callback of a batch")
	}
	if err == nil && o.when != nil {
		err = &FieldError{o.timed, "it for a callback", "no time: a callback is pushed when its time has come"}
	}
	if err != nil {
		return "", "", err
	}
	d, err := o.draft(item.args.Class(), raw, cmp.Or(o.jid, job.NewID()), now, now, c.stamp(now))
	if err != nil {
		return "", "", err
	}
	p, err := d.payload()
	if err != nil {
		return "", "", err
	}
	e, _, err := c.seal(ctx, p, now)
	if err == nil && (e.lock != nil || e.score != "") {
		err = &MiddlewareError{&FieldError{"callback", "a unique job, or one with a time", "neither"}}
	}
	if err != nil {
		return "", "", err
	}
	if p, err = troupe.ParsePayload(e.raw); err != nil {
		return "", "", err
	}
	p.Delete("enqueued_at")
	p.SetString("t_callback", of)
	return e.queue, string(bytes.TrimSuffix(p.Bytes(), []byte("}"))), nil
}

// inBatch runs fn with a client whose pushes enter a batch.
func (c *Client) inBatch(ctx context.Context, j *job.Join, fn func(b *Batch) error) error {
	b := &batching{c: c, join: j, token: job.NewID()}
	own := c.unbuffered()
	own.batch = b
	err := fn(&Batch{own})
	if err = b.end(ctx, err); err != nil {
		return fmt.Errorf("batch %s: after %d jobs: %w", j.ID, b.entered, err)
	}
	return nil
}

// batching are the pushes into a batch.
type batching struct {
	c     *Client // that of the user
	join  *job.Join
	token string // names its calls

	mu      sync.Mutex
	jobs    []job.Push
	bytes   int
	calls   int
	entered int   // jobs
	err     error // the first
	ended   bool
}

const (
	joinJobs  = 1000 // of one call
	joinBytes = 1 << 20
)

// add takes entries into the next call. One error, or nil, for each.
func (b *batching) add(ctx context.Context, entries []entry) []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.err
	if b.ended {
		err = &FieldError{"batch", "a push after the end of its function", "one before it, or GrowBatch"}
	}
	for i := range entries {
		if entries[i].lock != nil {
			err = cmp.Or[error](err, &FieldError{"Unique", "it for a job of a batch", "a job that is not unique: NotUnique"})
		}
	}
	if err != nil {
		return same(err, len(entries))
	}
	for _, e := range entries {
		b.jobs = append(b.jobs, job.Push{Queue: e.queue, Score: e.score, Payload: e.raw, Batch: b.join})
		if b.bytes += len(e.raw); b.c.kept != nil || len(b.jobs) < joinJobs && b.bytes < joinBytes {
			continue
		}
		if b.call(ctx, false); b.err != nil {
			return same(b.err, len(entries))
		}
	}
	return nil
}

// begin makes the batch without any jobs yet, or looks whether it takes some.
func (b *batching) begin(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c.kept == nil && b.calls == 0 && b.err == nil {
		b.call(ctx, false)
	}
	return b.err
}

// end sees the rest into Redis and ends the batch, unless err has ended the push.
func (b *batching) end(ctx context.Context, err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	switch {
	case err != nil && b.err != nil && !errors.Is(err, b.err):
		return errors.Join(err, b.err)
	case err != nil || b.err != nil:
		return cmp.Or(err, b.err)
	case b.c.kept != nil:
		return keepFault(b.c.kept.Add(append(b.jobs, job.Push{Batch: b.join})...))
	}
	b.call(ctx, true)
	return b.err
}

// call sends what has gathered.
func (b *batching) call(ctx context.Context, last bool) {
	b.calls++
	if b.err = b.c.join(ctx, b.join, b.token, b.calls, last, b.jobs); b.err == nil {
		b.entered += len(b.jobs)
	}
	clear(b.jobs)
	b.jobs, b.bytes = b.jobs[:0], 0
}

// join makes one call.
func (c *Client) join(ctx context.Context, j *job.Join, token string, number int, last bool, jobs []job.Push) error {
	refused, err := job.JoinBatch(ctx, c.rdb, j, token, number, last, jobs)
	id := strconv.Quote(j.ID)
	const want = "one that is there and has not succeeded"
	switch {
	case err != nil:
		return unavailable(err, !redisconn.NotSent(err))
	case refused == "":
		return nil
	case refused == "UNKNOWN":
		return &FieldError{"batch", id + ", which is not there", want}
	case refused == "SUCCEEDED":
		return &FieldError{"batch", id + ", which has succeeded", want}
	case refused == "CANCELLED":
		return &FieldError{"batch", id + ", which was cancelled", want}
	}
	return refusal(refused)
}

// sendBatches pushes those of what was kept that enter batches, and returns the others.
func (c *Client) sendBatches(ctx context.Context, pushes []job.Push) (others []job.Push, err error) {
	var joined []*job.Join // each behind those within it
	for len(pushes) > 0 {
		b, n := pushes[0].Batch, 1
		for n < len(pushes) && pushes[n].Batch == b {
			n++
		}
		if b == nil {
			others = append(others, pushes[:n]...)
		} else if err := c.join(ctx, b, job.NewID(), 1, false, pushes[:n-1]); err != nil { // the last is its end
			return nil, fmt.Errorf("batch %s: %w", b.ID, err)
		} else {
			joined = append(joined, b)
		}
		pushes = pushes[n:]
	}
	for _, b := range joined {
		if err := c.join(ctx, b, job.NewID(), 1, true, nil); err != nil {
			return nil, fmt.Errorf("batch %s: %w", b.ID, err)
		}
	}
	return others, nil
}
