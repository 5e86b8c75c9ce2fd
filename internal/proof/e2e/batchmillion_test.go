package e2e

import (
	"flag"
	"iter"
	"testing"
	"time"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

var batchJobs = flag.Int("e2e.batch", 20_000, "how many jobs TestALargeBatch pushes; by hand 1000000")

// A batch takes two bits a job in Redis, whoever runs it: of a million jobs less than 1 MB. Each callback is pushed once, and its keys expire.
// By hand: go test ./internal/proof/e2e -run TestALargeBatch -v -e2e.batch 1000000
func TestALargeBatch(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	ctx := t.Context()
	n := *batchJobs
	began := time.Now()
	jobs := iter.Seq[[]any](func(yield func([]any) bool) {
		for i := range n {
			if !yield([]any{i}) {
				return
			}
		}
	})
	on := func(event string) client.Item { return client.Job(calledBack{"large", event}, client.Queue("low")) } // which nobody serves
	o := client.BatchOptions{Complete: on("complete"), Success: on("success"), Death: on("death")}
	id, err := client.New(rdb).Batch(ctx, o, func(b *client.Batch) error {
		_, err := b.PushBulkClass(ctx, "Noop", jobs)
		return err
	})
	harness.OK(t, err)
	harness.Equal(t, "jobs", rdb.LLen(ctx, "queue:default").Val(), int64(n))
	t.Logf("%d jobs were pushed in %v", n, time.Since(began).Round(time.Millisecond))

	used := func() (bytes int64) {
		for _, part := range batchKeys {
			bytes += rdb.MemoryUsage(ctx, "troupe:batch:"+id+part, 0).Val()
		}
		return bytes
	}
	began = time.Now()
	most := used()
	w := daemon(t, url, "concurrency: 25\nhandlers: {Noop: {builtin: noop}}\n")
	harness.AwaitFor(t, time.Minute+time.Duration(n)*time.Millisecond/5, "it has succeeded", func() bool {
		most = max(most, used())
		return rdb.HExists(ctx, "troupe:batch:"+id, "success").Val()
	})
	t.Logf("they are done after %v; the keys of the batch took %d bytes at most, of %d jobs", time.Since(began).Round(time.Millisecond), most, n)
	if allowed := max(4096, int64(n)); most > allowed { // half of that are the bits: a bitmap grows by doubling
		t.Errorf("the batch takes %d bytes for %d jobs, want %d at most", most, n, allowed)
	}
	harness.Equal(t, "callbacks", rdb.LLen(ctx, "queue:low").Val(), 2)
	harness.Equal(t, "bits", rdb.BitCount(ctx, "troupe:batch:"+id+":done", nil).Val(), int64(n))
	b := harness.Must(inspect.New(rdb).Batch(ctx, id))(t)
	harness.Equal(t, "jobs and those not done", [2]int64{b.Total, b.Pending}, [2]int64{int64(n), 0})
	livesForADay(t, rdb, id)
	w.Stop(soon)
	rdb.Del(ctx, "queue:low")
	clean(t, rdb)
}
