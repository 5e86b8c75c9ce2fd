package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
)

// pushUnique pushes a unique job to the queue a, or into schedule if it is for later.
func pushUnique(t *testing.T, rdb redis.UniversalClient, n int, until troupe.UniqueUntil, later ...client.Option) string {
	t.Helper()
	all := append(later, client.Queue("a"), client.Unique(troupe.Unique{For: time.Hour, Until: until}))
	return harness.Must(client.New(rdb).PushClass(t.Context(), "U", []any{n}, all...))(t)
}

// locks are the jids that hold locks, sorted.
func locks(t *testing.T, rdb redis.UniversalClient) []string {
	t.Helper()
	var found []string
	read := func(ctx context.Context, c redis.Cmdable) error {
		for _, key := range c.Keys(ctx, "troupe:lock:*").Val() {
			found = append(found, rdb.Get(ctx, key).Val())
		}
		return nil
	}
	if c, ok := rdb.(*redis.ClusterClient); ok {
		for _, node := range masters(t, c) {
			harness.OK(t, read(t.Context(), node))
		}
	} else {
		harness.OK(t, read(t.Context(), rdb))
	}
	slices.Sort(found)
	return found
}

func masters(t *testing.T, c *redis.ClusterClient) (nodes []*redis.Client) {
	t.Helper()
	found := make(chan *redis.Client, 100)
	harness.OK(t, c.ForEachMaster(t.Context(), func(_ context.Context, node *redis.Client) error { found <- node; return nil }))
	close(found)
	for node := range found {
		nodes = append(nodes, node)
	}
	return nodes
}

// Whatever takes a unique job away frees its lock, of that job and of no other.
func TestWhatTakesAJobAwayFreesItsLock(t *testing.T) {
	queued := func(i *inspect.Inspector, jid string) *inspect.QueuedJob {
		for j, err := range i.Queue("a").Each(t.Context()) {
			if err == nil && j.JID == jid {
				return j
			}
		}
		return nil
	}
	stopping := func(rdb redis.UniversalClient) *client.Client {
		return client.New(rdb, client.WithMiddleware(func(client.PushFunc) client.PushFunc {
			return func(context.Context, *troupe.Payload) error { return client.ErrStopped }
		}))
	}
	later := []client.Option{client.In(time.Hour)}
	mine := func(e *inspect.SortedEntry) bool { return strings.Contains(e.Raw, "[1]") }
	for name, one := range map[string]struct {
		later []client.Option
		act   func(t *testing.T, i *inspect.Inspector, rdb redis.UniversalClient, jid string)
	}{
		"delete of a queue": {nil, func(t *testing.T, i *inspect.Inspector, _ redis.UniversalClient, jid string) {
			harness.Equal(t, "delete", harness.Must(queued(i, jid).Delete(t.Context()))(t), inspect.Done)
		}},
		"kill of a queue": {nil, func(t *testing.T, i *inspect.Inspector, _ redis.UniversalClient, jid string) {
			harness.Equal(t, "kill", harness.Must(queued(i, jid).Kill(t.Context()))(t), inspect.Done)
		}},
		"delete of a set": {later, func(t *testing.T, i *inspect.Inspector, _ redis.UniversalClient, jid string) {
			e := harness.Must(i.ScheduledSet.FindJob(t.Context(), jid))(t)
			harness.Equal(t, "delete", harness.Must(e.Delete(t.Context()))(t), inspect.Done)
		}},
		"kill of a set": {later, func(t *testing.T, i *inspect.Inspector, _ redis.UniversalClient, jid string) {
			e := harness.Must(i.ScheduledSet.FindJob(t.Context(), jid))(t)
			harness.Equal(t, "kill", harness.Must(e.Kill(t.Context()))(t), inspect.Done)
		}},
		"delete of many": {later, func(t *testing.T, i *inspect.Inspector, _ redis.UniversalClient, _ string) {
			harness.Equal(t, "deleted", harness.Must(i.ScheduledSet.DeleteAll(t.Context(), inspect.Bulk{Where: mine}))(t).Done, 1)
		}},
		"kill of many": {later, func(t *testing.T, i *inspect.Inspector, _ redis.UniversalClient, _ string) {
			harness.Equal(t, "killed", harness.Must(i.ScheduledSet.KillAll(t.Context(), inspect.Bulk{Where: mine}))(t).Done, 1)
		}},
		"stopped by middleware": {later, func(t *testing.T, i *inspect.Inspector, rdb redis.UniversalClient, jid string) {
			i.Client = stopping(rdb)
			e := harness.Must(i.ScheduledSet.FindJob(t.Context(), jid))(t)
			harness.Equal(t, "stopped", harness.Must(e.AddToQueue(t.Context()))(t), inspect.Stopped)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			servers(t, func(t *testing.T, i *inspect.Inspector, rdb redis.UniversalClient) {
				jid := pushUnique(t, rdb, 1, troupe.UntilDone, one.later...)
				other := pushUnique(t, rdb, 2, troupe.UntilDone, one.later...)
				harness.Must(client.New(rdb).PushClass(t.Context(), "Plain", []any{3}, append(one.later, client.Queue("a"))...))(t)
				one.act(t, i, rdb, jid)
				harness.EqualList(t, "locks are held by", locks(t, rdb), []string{other})
				pushUnique(t, rdb, 1, troupe.UntilDone, one.later...)
			})
		})
	}
}

func TestTheLockOfAnotherJobStays(t *testing.T) {
	servers(t, func(t *testing.T, i *inspect.Inspector, rdb redis.UniversalClient) {
		ctx := t.Context()
		jid := pushUnique(t, rdb, 1, troupe.UntilDone)
		period := pushUnique(t, rdb, 2, troupe.UntilPeriod)
		var key string
		var dup *client.DuplicateError
		if _, err := client.New(rdb).PushClass(ctx, "U", []any{1}, client.Queue("a"), client.Unique(troupe.Unique{})); !errors.As(err, &dup) || dup.Holder != jid {
			t.Fatal(err)
		}
		key = dup.Lock
		harness.OK(t, rdb.Set(ctx, key, "another", time.Hour).Err())
		harness.Equal(t, "cleared", harness.Must(i.Queue("a").Clear(ctx))(t), 2)
		want := []string{"another", period}
		slices.Sort(want)
		harness.EqualList(t, "locks are held by", locks(t, rdb), want)
	})
}

// A clear goes by pages, and frees the locks of all that it deletes.
func TestClearFreesLocks(t *testing.T) {
	servers(t, func(t *testing.T, i *inspect.Inspector, rdb redis.UniversalClient) {
		ctx := t.Context()
		const jobs = 2500
		fill := func() {
			for n := range jobs {
				push(t, rdb, "a", job(n, "a"))
				if n%100 == 7 {
					pushUnique(t, rdb, n, troupe.UntilDone)
					pushUnique(t, rdb, -n, troupe.UntilDone, client.In(time.Hour))
				}
			}
			for n := range jobs {
				add(t, rdb, "schedule", float64(n), job(n, "a"))
			}
		}
		fill()
		harness.Equal(t, "locks", len(locks(t, rdb)), 2*jobs/100)
		harness.Equal(t, "cleared", harness.Must(i.Queue("a").Clear(ctx))(t), jobs+jobs/100)
		harness.Equal(t, "locks", len(locks(t, rdb)), jobs/100)
		harness.Equal(t, "cleared", harness.Must(i.ScheduledSet.Clear(ctx))(t), jobs+jobs/100)
		harness.Equal(t, "locks", len(locks(t, rdb)), 0)
		harness.Equal(t, "keys", rdb.Exists(ctx, "queue:a").Val()+rdb.Exists(ctx, "schedule").Val(), 0)
		harness.Equal(t, "the queue is listed", rdb.SIsMember(ctx, "queues", "a").Val(), false)
	})
}

// A job that was dead takes its lock again on the way to its queue, or stays and tells who has it.
func TestRetryOfADeadJobTakesItsLock(t *testing.T) {
	servers(t, func(t *testing.T, i *inspect.Inspector, rdb redis.UniversalClient) {
		ctx := t.Context()
		dead := func(n int, until troupe.UniqueUntil) string {
			jid := pushUnique(t, rdb, n, until, client.In(time.Hour))
			harness.Must(harness.Must(i.ScheduledSet.FindJob(ctx, jid))(t).Kill(ctx))(t)
			return jid
		}
		first := dead(1, troupe.UntilDone)
		second := pushUnique(t, rdb, 1, troupe.UntilDone)
		_, err := harness.Must(i.DeadSet.FindJob(ctx, first))(t).Retry(ctx)
		var dup *client.DuplicateError
		if !errors.As(err, &dup) || dup.Holder != second || !strings.Contains(err.Error(), second) || !inspect.IsFault(err) {
			t.Fatalf("got %v", err)
		}
		harness.Equal(t, "dead", rdb.ZCard(ctx, "dead").Val(), 1)

		start := dead(2, troupe.UntilStart)
		third := dead(3, troupe.UntilDone)
		counts := harness.Must(i.DeadSet.RetryAll(ctx, inspect.Bulk{}))(t)
		if counts.Done != 2 || counts.Left != 1 || !errors.As(counts.Fault, &dup) || dup.Holder != second {
			t.Errorf("%+v", counts)
		}
		want := []string{second, third} // one until the start has run already
		slices.Sort(want)
		harness.EqualList(t, "locks are held by", locks(t, rdb), want)
		if got := jids(t, rdb, "a"); !slices.Contains(got, start) || !slices.Contains(got, third) || slices.Contains(got, first) {
			t.Errorf("the queue has %q", got)
		}

		// A queue that refuses the job leaves the lock free.
		fourth := dead(4, troupe.UntilDone)
		harness.OK(t, rdb.Del(ctx, "queue:a").Err())
		harness.OK(t, rdb.Set(ctx, "queue:a", "no list", 0).Err())
		if _, err := harness.Must(i.DeadSet.FindJob(ctx, fourth))(t).Retry(ctx); err == nil {
			t.Error("no error")
		}
		harness.EqualList(t, "locks are held by", locks(t, rdb), want)
	})
}

func TestRescheduleMovesTheEndOfTheLock(t *testing.T) {
	servers(t, func(t *testing.T, i *inspect.Inspector, rdb redis.UniversalClient) {
		ctx := t.Context()
		jid := pushUnique(t, rdb, 1, troupe.UntilDone, client.In(time.Minute))
		e := harness.Must(i.ScheduledSet.FindJob(ctx, jid))(t)
		harness.Must(e.Reschedule(ctx, time.Now().Add(48*time.Hour)))(t)
		var dup *client.DuplicateError
		if _, err := client.New(rdb).PushClass(ctx, "U", []any{1}, client.Queue("a"), client.Unique(troupe.Unique{})); !errors.As(err, &dup) {
			t.Fatal(err)
		}
		if ends := rdb.PTTL(ctx, dup.Lock).Val(); ends < 48*time.Hour || ends > 49*time.Hour {
			t.Errorf("it ends in %v", ends)
		}
	})
}

// Jobs without a lock cost what they did: one command in a round trip each, and no script.
func TestJobsWithoutALockAreRemovedAsBefore(t *testing.T) {
	i, rdb, _ := start(t)
	ctx := t.Context()
	push(t, rdb, "a", job(1, "a"))
	add(t, rdb, "retry", 1, job(2, "a"))
	var sent []string
	rdb.AddHook(recorder{&sent})
	harness.Must(i.Queue("a").Job(job(1, "a")).Delete(ctx))(t)
	harness.Must(i.RetrySet.DeleteAll(ctx, inspect.Bulk{}))(t)
	for _, name := range []string{"lrem", "zrem"} {
		if n := strings.Count(fmt.Sprint(sent), name); n != 1 {
			t.Errorf("%d of %s: %q", n, name, sent)
		}
	}
}

type recorder struct{ sent *[]string }

func (recorder) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r recorder) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		*r.sent = append(*r.sent, cmd.Name())
		return next(ctx, cmd)
	}
}

func (r recorder) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			*r.sent = append(*r.sent, cmd.Name())
		}
		return next(ctx, cmds)
	}
}
