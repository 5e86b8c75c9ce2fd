package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
)

type called struct{ Event string }

func (called) Class() string { return "Called" }

// on is a callback in the queue calls.
func on(event string) client.Item { return client.Job(called{event}, client.Queue("calls")) }

// batched pushes a batch of so many jobs into the queue a, with all callbacks.
func batched(t *testing.T, rdb redis.UniversalClient, name string, n int) (id string) {
	t.Helper()
	o := client.BatchOptions{Name: name, Complete: on("complete"), Success: on("success"), Death: on("death")}
	id, err := client.New(rdb).Batch(t.Context(), o, func(b *client.Batch) error {
		for k := range n {
			if _, err := b.PushClass(t.Context(), "Work", []any{k}, client.Queue("a")); err != nil {
				return err
			}
		}
		return nil
	})
	harness.OK(t, err)
	return id
}

// line has values as a line.
func line(values ...any) string { return strings.TrimSuffix(fmt.Sprintln(values...), "\n") }

// take takes the next job out of the queue a, as Ruby does.
func take(t *testing.T, rdb redis.UniversalClient) string {
	t.Helper()
	return harness.Must(rdb.RPop(t.Context(), "queue:a").Result())(t)
}

// A batch tells its counts, its callbacks and where its jobs are; what is nowhere is counted out, and then it ends.
func TestBatches(t *testing.T) {
	i, rdb, _ := start(t)
	ctx := t.Context()
	id := batched(t, rdb, "import", 9)
	for range 2 {
		take(t, rdb)
	}
	add(t, rdb, "dead", someTime, take(t, rdb))
	add(t, rdb, "retry", someTime, take(t, rdb))
	add(t, rdb, "schedule", someTime, take(t, rdb))
	rdb.SAdd(ctx, "processes", "h:1:ruby")
	rdb.HSet(ctx, "h:1:ruby", "info", "{}", "busy", "1")
	harness.OK(t, rdb.HSet(ctx, "h:1:ruby:work", "t1", fmt.Sprintf(`{"queue":"a","run_at":1795225014,"payload":%q}`, take(t, rdb))).Err())

	b := harness.Must(i.Batch(ctx, id))(t)
	harness.Equal(t, "batch", line(b.Name, b.Total, b.Pending, b.Unrun, b.State(), b.Ended(), b.Refused(), len(b.Callbacks)), "import 9 9 9 running false  3")
	harness.Equal(t, "callback", line(b.Callbacks[1].Event, b.Callbacks[1].Queue, b.Callbacks[1].Class, len(b.Callbacks[1].JID), b.Callbacks[1].At.IsZero()), "success calls Called 24 true")
	if age := time.Since(b.Made); age < 0 || age > time.Minute {
		t.Errorf("it was made at %v", b.Made)
	}
	found := harness.Must(i.FindBatchJobs(ctx, 100, b))(t)[id]
	harness.Equal(t, "places", fmt.Sprint(slices.Sorted(maps.Keys(found.Places)), found.Places["queue:a"], found.Places["in progress"]), "[dead in progress queue:a retry scheduled] 3 1")
	harness.Equal(t, "missing", fmt.Sprint(found.Missing, found.MissingAt, found.TooLong, len(found.Dead)), "2 [0 1] 0 1")
	in, index := found.Dead[0].Batch()
	harness.Equal(t, "the dead one", fmt.Sprint(in == id, index), "true 2")
	_, err := i.FindBatchJobs(ctx, 5, b)
	harness.Equal(t, "too many", errors.Is(err, inspect.ErrTooManyJobs), true)

	waits, c, err := i.FindCallback(ctx, b.Callbacks[1].JID)
	harness.OK(t, err)
	harness.Equal(t, "the callback", waits.ID+c.Event, id+"success")
	_, _, err = i.FindCallback(ctx, "none")
	harness.Equal(t, "no callback", errors.Is(err, inspect.ErrNotFound), true)

	harness.Equal(t, "counted out", harness.Must(b.CountOut(ctx, 0))(t), 2)
	harness.Equal(t, "again", harness.Must(b.CountOut(ctx, 0))(t), 0)
	harness.Equal(t, "pending", harness.Must(i.Batch(ctx, id))(t).Pending, 7)
	for _, s := range []*inspect.JobSet{i.DeadSet, i.RetrySet, i.ScheduledSet} {
		harness.Must(s.Clear(ctx))(t)
	}
	harness.Must(i.Queue("a").Clear(ctx))(t)
	rdb.Del(ctx, "h:1:ruby:work")
	harness.Equal(t, "before the last", rdb.LLen(ctx, "queue:calls").Val(), 0)
	harness.Equal(t, "counted out", harness.Must(b.CountOut(ctx, 0))(t), 1)
	b = harness.Must(i.Batch(ctx, id))(t)
	harness.Equal(t, "the end", line(b.State(), b.Pending, rdb.LLen(ctx, "queue:calls").Val(), b.Callbacks[0].At.IsZero(), b.Callbacks[2].At.IsZero()), "succeeded 0 2 false true")
	for k, want := range []string{"success", "complete"} {
		job := only(t, func(yield func(*inspect.QueuedJob, error) bool) {
			for j, err := range i.Queue("calls").Each(ctx) {
				if k--; k < 0 {
					yield(j, err)
					return
				}
			}
		})
		of, event := job.CallbackOf()
		harness.Equal(t, "callback", of+event, id+want)
	}
	_, err = i.Batch(ctx, "none")
	harness.Equal(t, "none", errors.Is(err, inspect.ErrNotFound), true)
}

// The list has the newest first, of each its state; children are found below their parent, and are jobs of it that are somewhere.
func TestTheListOfBatches(t *testing.T) {
	i, rdb, _ := start(t)
	ctx, c := t.Context(), client.New(rdb)
	first := batched(t, rdb, "first", 1)
	open, err := c.Batch(ctx, client.BatchOptions{Open: true}, func(*client.Batch) error { return nil })
	harness.OK(t, err)
	var child string
	parent, err := c.Batch(ctx, client.BatchOptions{Name: "parent"}, func(b *client.Batch) (err error) {
		child, err = b.Batch(ctx, client.BatchOptions{Name: "child"}, func(b *client.Batch) error {
			_, err := b.PushClass(ctx, "Work", nil, client.Queue("a"))
			return err
		})
		return err
	})
	harness.OK(t, err)
	cancelled := batched(t, rdb, "cancelled", 1)
	harness.OK(t, c.CancelBatch(ctx, cancelled))
	rdb.ZAdd(ctx, keys.Batches, redis.Z{Score: 1e12, Member: "expired"})
	rdb.LPush(ctx, keys.Batch("wrong"), "x")
	rdb.ZAdd(ctx, keys.Batches, redis.Z{Score: 1e12, Member: "wrong"})
	batches, cut, err := i.Batches(ctx)
	harness.OK(t, err)
	var got []string
	for _, b := range batches {
		name := map[string]string{first: "first", open: "open", parent: "parent", child: "child", cancelled: "cancelled"}[b.ID]
		got = append(got, name+" "+b.State())
	}
	harness.Equal(t, "list", fmt.Sprint(cut, got), "false [cancelled cancelled child running parent running open open first running]")
	p := harness.Must(i.Batch(ctx, parent))(t)
	children, more, err := p.Children(ctx)
	harness.OK(t, err)
	harness.Equal(t, "children", fmt.Sprint(len(children), children[0].ID == child, children[0].Parent == parent, more), "1 true true false")
	found := harness.Must(i.FindBatchJobs(ctx, 0, batches...))(t)
	harness.Equal(t, "looked at", len(found), 3) // neither the cancelled nor the empty one
	harness.Equal(t, "of the parent", fmt.Sprint(found[parent].Batches, found[parent].Missing), "1 0")
	harness.Equal(t, "counted out", harness.Must(p.CountOut(ctx, 0))(t), 0)
}

// A job that is somewhere at the second look is not counted out.
func TestCountingOutLooksTwice(t *testing.T) {
	i, rdb, _ := start(t)
	ctx := t.Context()
	id := batched(t, rdb, "b", 3)
	one := take(t, rdb)
	take(t, rdb)
	reads := 0
	rdb.AddHook(before(func(cmd redis.Cmder) {
		if cmd.Name() == "get" && strings.HasSuffix(fmt.Sprint(cmd.Args()[1]), ":done") {
			if reads++; reads == 3 { // the begin of the second look
				push(t, rdb, "a", one)
			}
		}
	}))
	b := harness.Must(i.Batch(ctx, id))(t)
	harness.Equal(t, "counted out", harness.Must(b.CountOut(ctx, 0))(t), 1)
	harness.Equal(t, "done", rdb.GetBit(ctx, keys.BatchDone(id), 0).Val()+2*rdb.GetBit(ctx, keys.BatchDone(id), 1).Val(), 2)
}

// A job that is so long that its batch cannot be told may be the missing one.
func TestNothingIsCountedOutBesideJobsThatAreTooLong(t *testing.T) {
	i, rdb, _ := start(t, func(i *inspect.Inspector) { i.MaxRead = 1000 })
	ctx := t.Context()
	id := batched(t, rdb, "b", 2)
	raw := take(t, rdb)
	long := strings.TrimSuffix(raw, "}") + `,"error_class":"E","error_message":"` + strings.Repeat("x", 5000) + `"}`
	add(t, rdb, "retry", someTime, strings.Replace(long, `"args":[0]`, `"args":["`+strings.Repeat("y", 5000)+`"]`, 1))
	b := harness.Must(i.Batch(ctx, id))(t)
	found := harness.Must(i.FindBatchJobs(ctx, 0, b))(t)[id]
	harness.Equal(t, "found", fmt.Sprint(found.Missing, found.TooLong), "1 1")
	if n, err := b.CountOut(ctx, 0); n != 0 || err == nil || !strings.Contains(err.Error(), "1 job too long") {
		t.Errorf("counted out %d: %v", n, err)
	}
}

// A callback that its queue has refused is told.
func TestARefusedCallback(t *testing.T) {
	i, rdb, _ := start(t)
	ctx := t.Context()
	id := batched(t, rdb, "b", 1)
	rdb.Set(ctx, "queue:calls", "wrong", 0)
	harness.Must(i.Queue("a").Clear(ctx))(t)
	b := harness.Must(i.Batch(ctx, id))(t)
	harness.Equal(t, "refused", b.Refused()+" "+b.State(), "complete complete")
	rdb.Del(ctx, "queue:calls")
	harness.OK(t, i.Client.CloseBatch(ctx, id))
	b = harness.Must(i.Batch(ctx, id))(t)
	harness.Equal(t, "then", b.Refused()+" "+b.State(), " succeeded")
}

// before is a hook that is called with each command.
type before func(redis.Cmder)

func (b before) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b before) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		b(cmd)
		return next(ctx, cmd)
	}
}

func (b before) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
