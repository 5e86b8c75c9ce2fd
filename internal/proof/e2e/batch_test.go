package e2e

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// toKill is a Redis with the records and the spec of workers that are killed.
func toKill(t *testing.T) (rdb *redis.Client, rec *records, spec workerSpec) {
	t.Helper()
	rdb, url := redistest.New(t)
	rec = newRecords(t)
	return rdb, rec, workerSpec{Redis: url, Records: rec.url, Lease: 2 * time.Second}
}

// batchKeys are the ends of the names of the keys that each batch has.
var batchKeys = []string{"", ":ran", ":done"}

// livesForADay tells if a batch that has succeeded has keys that live for longer than a day.
func livesForADay(t *testing.T, rdb *redis.Client, id string) {
	t.Helper()
	for _, part := range batchKeys {
		if ttl := rdb.TTL(t.Context(), "troupe:batch:"+id+part).Val(); ttl <= 0 || ttl > 24*time.Hour {
			t.Errorf("%q lives for %v, want a day at most", part, ttl)
		}
	}
}

// A batch of 10,000 jobs under kill -9: each callback is pushed once, not before its time, and its keys expire.
func TestABatchUnderKills(t *testing.T) {
	t.Parallel()
	rdb, _, spec := toKill(t)
	ctx := t.Context()
	const n = 10_000
	on := func() client.Item { return client.Job(napFor{0}, client.Queue("low")) } // which nobody serves
	id, err := client.New(rdb).Batch(ctx, client.BatchOptions{Complete: on(), Success: on(), Death: on()}, func(b *client.Batch) error {
		for range n {
			if _, err := b.Push(ctx, napFor{0.001}); err != nil {
				return err
			}
		}
		return nil
	})
	harness.OK(t, err)
	harness.Equal(t, "jobs", rdb.LLen(ctx, "queue:default").Val(), n)

	done := func() int64 { return rdb.BitCount(ctx, "troupe:batch:"+id+":done", nil).Val() }
	w := startWorker(t, spec)
	for kills := int64(1); kills <= 5; kills++ {
		testkit.Await(t, "some more are done", func() bool { return done() >= kills*n/8+rand.Int64N(n/16) })
		w.Kill()
		if called := rdb.LLen(ctx, "queue:low").Val(); called != 0 && done() < n {
			t.Fatalf("%d callbacks while %d of %d jobs are done", called, done(), n)
		}
		w = startWorker(t, spec)
	}
	testkit.Await(t, "its callbacks are pushed", func() bool { return rdb.LLen(ctx, "queue:low").Val() >= 2 })
	harness.Equal(t, "done", done(), n)
	w.Stop(soon)
	called := rdb.LRange(ctx, "queue:low", 0, -1).Val()
	if len(called) != 2 || !strings.Contains(called[1], id+":complete") || !strings.Contains(called[0], id+":success") {
		t.Errorf("the callbacks are %q", called)
	}
	livesForADay(t, rdb, id)
	rdb.Del(ctx, "queue:low")
	clean(t, rdb)
}

// A batch that is open grows while its jobs run, ends when the command closes it, and takes no job after that.
func TestAnOpenBatchIsClosedByTheCommand(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	ctx, c := t.Context(), client.New(rdb)
	fill := func(b *client.Batch) error {
		_, err := b.PushClass(ctx, "Noop", nil)
		return err
	}
	on := func(event string) client.Item { return client.Job(calledBack{"open", event}) }
	id, err := c.Batch(ctx, client.BatchOptions{Name: "open", Open: true, Complete: on("complete"), Success: on("success")}, fill)
	harness.OK(t, err)
	w := daemon(t, url, "handlers: {Noop: {builtin: noop}}\n")
	done := func(n int64) {
		t.Helper()
		testkit.Await(t, "its jobs are done", func() bool { return rdb.BitCount(ctx, "troupe:batch:"+id+":done", nil).Val() == n })
	}
	done(1)
	harness.OK(t, c.GrowBatch(ctx, id, fill))
	done(2)
	testkit.RequireBatchState(t, rdb, id, inspect.BatchOpen)
	run := func(args ...string) string {
		t.Helper()
		p := procs.Troupe(t, nil, append(append([]string{"batches"}, args...), "--redis", url)...)
		if code := p.Exit(soon); code != 0 {
			t.Fatalf("batches %v: %d\n%s", args, code, p.Stderr())
		}
		return p.Stdout()
	}
	if list := run("--open"); !strings.Contains(list, id) {
		t.Errorf("the open batches are %q", list)
	}
	harness.Equal(t, "callbacks before it is closed", rdb.ZCard(ctx, "retry").Val()+rdb.LLen(ctx, "queue:default").Val(), 0)
	run("close", id, "--reason", "all is pushed", "--yes")
	testkit.RequireBatchState(t, rdb, id, inspect.BatchSucceeded)
	testkit.Await(t, "its callbacks, whose class has no handler, have failed", func() bool { return rdb.ZCard(ctx, "retry").Val() == 2 })
	if err := c.GrowBatch(ctx, id, fill); err == nil || !strings.Contains(err.Error(), "which has succeeded") {
		t.Errorf("it grows after its end: %v", err)
	}
	harness.Equal(t, "its jobs", rdb.HGet(ctx, "troupe:batch:"+id, "total").Val(), "2")
	w.Stop(soon)
}
