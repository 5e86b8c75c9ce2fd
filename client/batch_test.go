package client_test

import (
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// nothing is a job.
type nothing struct{}

func (nothing) Class() string { return "Nothing" }

// A batch enters Redis whole or not at all: where the queue of one of its jobs refuses, there are neither the others nor the batch.
func TestABatchThatAQueueRefusesLeavesNothing(t *testing.T) {
	t.Parallel()
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	harness.OK(t, rdb.Set(ctx, "queue:bad", "no list", 0).Err())
	_, err := client.New(rdb).Batch(ctx, client.BatchOptions{}, func(b *client.Batch) error {
		for _, o := range [][]client.Option{nil, {client.In(time.Hour)}, {client.Queue("bad")}} {
			if _, err := b.Push(ctx, nothing{}, o...); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		t.Error("it was pushed")
	}
	harness.Equal(t, "jobs and batches", rdb.Exists(ctx, "queue:default", "schedule").Val()+int64(len(rdb.Keys(ctx, "troupe:batch*").Val())), 0)
}

// A callback that its queue refuses is not marked as pushed, nor is what comes after it; CloseBatch pushes both once when the queue takes them.
func TestARefusedCallbackIsPushedByCloseBatch(t *testing.T) {
	t.Parallel()
	rdb, _ := redistest.New(t)
	ctx, c := t.Context(), client.New(rdb)
	harness.OK(t, rdb.Set(ctx, "queue:bad", "no list", 0).Err())
	on := client.Job(nothing{}, client.Queue("bad"))
	id, err := c.Batch(ctx, client.BatchOptions{Complete: on, Success: client.Job(nothing{})}, func(*client.Batch) error { return nil })
	harness.OK(t, err)
	marks := func() int64 {
		key := "troupe:batch:" + id
		return map[bool]int64{true: 1}[rdb.HExists(ctx, key, "complete").Val()] + map[bool]int64{true: 1}[rdb.HExists(ctx, key, "success").Val()]
	}
	harness.Equal(t, "marks while the queue refuses", marks(), 0)
	rdb.Del(ctx, "queue:bad")
	harness.OK(t, c.CloseBatch(ctx, id))
	harness.Equal(t, "marks then", marks(), 2)
	if err := c.CloseBatch(ctx, id); err == nil {
		t.Error("one that has succeeded is closed")
	}
	harness.Equal(t, "callbacks", rdb.LLen(ctx, "queue:bad").Val()+rdb.LLen(ctx, "queue:default").Val(), 2)
}

// The callback of a death that its queue refuses is pushed by CloseBatch, too, once.
func TestARefusedCallbackOfADeathIsPushedByCloseBatch(t *testing.T) {
	t.Parallel()
	rdb, _ := redistest.New(t)
	ctx, c := t.Context(), client.New(rdb)
	harness.OK(t, rdb.Set(ctx, "queue:bad", "no list", 0).Err())
	id, err := c.Batch(ctx, client.BatchOptions{Death: client.Job(nothing{}, client.Queue("bad"))}, func(b *client.Batch) error {
		_, err := b.PushMany(ctx, client.Job(nothing{}), client.Job(nothing{}))
		return err
	})
	harness.OK(t, err)
	harness.OK(t, job.CountBatch(ctx, rdb, job.Count{InBatch: job.InBatch{ID: id}, Event: job.BatchDied}))
	rdb.Del(ctx, "queue:bad")
	for range 2 {
		harness.OK(t, c.CloseBatch(ctx, id))
		harness.Equal(t, "callbacks", rdb.LLen(ctx, "queue:bad").Val(), 1)
	}
}

// A batch, and those around it, live for 30 days beyond the time at which a job is due that enters later.
func TestABatchOutlivesItsJobs(t *testing.T) {
	t.Parallel()
	rdb, _ := redistest.New(t)
	ctx, c := t.Context(), client.New(rdb)
	const day = 24 * time.Hour
	var child string
	parent, err := c.Batch(ctx, client.BatchOptions{Open: true}, func(b *client.Batch) (err error) {
		child, err = b.Batch(ctx, client.BatchOptions{Open: true}, func(*client.Batch) error { return nil })
		return err
	})
	harness.OK(t, err)
	lives := func(what string, days int) {
		t.Helper()
		for _, id := range []string{parent, child} {
			if got := rdb.PTTL(ctx, "troupe:batch:"+id).Val(); got < time.Duration(days)*day-time.Minute || got > time.Duration(days)*day+time.Minute {
				t.Errorf("%s a batch lives for %v, want %d days", what, got, days)
			}
		}
	}
	lives("new,", 30)
	harness.OK(t, c.GrowBatch(ctx, child, func(b *client.Batch) error {
		_, err := b.Push(ctx, nothing{}, client.In(60*day))
		return err
	}))
	lives("with a job of a later day,", 90)
}

// A batch within one that takes no jobs any more is refused, and nothing of it is pushed.
func TestABatchWithinOneThatHasSucceeded(t *testing.T) {
	t.Parallel()
	rdb, _ := redistest.New(t)
	ctx, c := t.Context(), client.New(rdb)
	id, err := c.Batch(ctx, client.BatchOptions{}, func(*client.Batch) error { return nil })
	harness.OK(t, err)
	err = c.GrowBatch(ctx, id, func(b *client.Batch) error {
		_, err := b.Batch(ctx, client.BatchOptions{}, func(b *client.Batch) error {
			_, err := b.Push(ctx, nothing{})
			return err
		})
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "which has succeeded") {
		t.Errorf("it was made: %v", err)
	}
	harness.Equal(t, "jobs and batches", rdb.LLen(ctx, "queue:default").Val()+rdb.ZCard(ctx, "troupe:batches").Val(), 1)
}
