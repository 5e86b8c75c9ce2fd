package e2e

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// A batch of 10,000 jobs under kill -9: each callback is pushed once, not before its time, and its keys expire.
func TestABatchUnderKills(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	rec := newRecords(t)
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

	spec := workerSpec{Redis: url, Records: rec.url, Lease: 2 * time.Second}
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
	for _, part := range []string{"", ":ran", ":done"} {
		if ttl := rdb.TTL(ctx, "troupe:batch:"+id+part).Val(); ttl <= 0 || ttl > 24*time.Hour {
			t.Errorf("%q lives for %v, want a day at most", part, ttl)
		}
	}
	rdb.Del(ctx, "queue:low")
	clean(t, rdb)
}
