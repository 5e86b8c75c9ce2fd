package inspect_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// TestOnACluster goes through what touches keys of several slots.
func TestOnACluster(t *testing.T) {
	rdb, _ := redistest.NewCluster(t)
	ctx := t.Context()
	i := inspect.New(rdb)
	for n := range 10 {
		raw := fmt.Sprintf(`{"class":"A","jid":"%024x","queue":"q%d","args":[],"retry_count":1}`, n, n%3)
		harness.OK(t, rdb.ZAdd(ctx, "retry", redis.Z{Score: float64(n + 1), Member: raw}).Err())
	}
	harness.OK(t, rdb.Set(ctx, "queue:q2", "no list", 0).Err())

	first, err := i.RetrySet.FindJob(ctx, fmt.Sprintf("%024x", 0))
	harness.OK(t, err)
	outcome, err := first.Kill(ctx)
	harness.OK(t, err)
	again, err := first.Kill(ctx)
	harness.OK(t, err)
	if outcome != inspect.Done || again != inspect.Gone || rdb.ZCard(ctx, "dead").Val() != 1 {
		t.Errorf("killed: %v, again: %v", outcome, again)
	}
	counts, err := i.RetrySet.RetryAll(ctx, inspect.Bulk{})
	harness.OK(t, err)
	if counts.Done != 6 || counts.Left != 3 || rdb.ZCard(ctx, "retry").Val() != 3 || rdb.ZCard(ctx, keys.Moving("retry")).Val() != 0 {
		t.Errorf("%+v, %d in the set", counts, rdb.ZCard(ctx, "retry").Val())
	}
	if score := rdb.ZRangeWithScores(ctx, "retry", 0, 0).Val(); len(score) != 1 || score[0].Score != 3 {
		t.Errorf("what its queue refused: %v", score)
	}
	harness.OK(t, i.Queue("q0").SetPaused(ctx, true))
	summaries, err := i.Queues(ctx)
	harness.OK(t, err)
	if len(summaries) < 2 || summaries[0].Size != 3 || !summaries[0].Paused == !summaries[1].Paused {
		t.Errorf("%+v", summaries)
	}
	_, size, err := i.Queue("q1").Page(ctx, 0, 10)
	harness.OK(t, err)
	n, err := i.Queue("q1").Clear(ctx)
	harness.OK(t, err)
	if size != 3 || n != 3 || rdb.SIsMember(ctx, "queues", "q1").Val() {
		t.Errorf("size %d, cleared %d", size, n)
	}

	day := time.Now().UTC().Format(time.DateOnly)
	harness.OK(t, rdb.Set(ctx, "stat:processed:"+day, 7, 0).Err())
	harness.OK(t, rdb.Set(ctx, "stat:processed", 9, 0).Err())
	history, err := i.History(ctx, 2, time.Time{})
	harness.OK(t, err)
	if history[0].Processed != 7 || history[1].Processed != 0 {
		t.Errorf("%+v", history)
	}
	harness.OK(t, i.ResetStats(ctx))
	stats, err := i.Stats(ctx)
	harness.OK(t, err)
	if stats.Processed != 0 || stats.RetrySize != 3 || stats.DeadSize != 1 {
		t.Errorf("%+v", stats)
	}
	harness.OK(t, rdb.SAdd(ctx, "processes", "h:1:a").Err())
	harness.OK(t, rdb.HSet(ctx, "h:1:a", "info", `{"hostname":"h","pid":1}`, "busy", 2).Err())
	p, err := i.Process(ctx, "h:1:a")
	harness.OK(t, err)
	harness.OK(t, p.Stop(ctx))
	if signals := rdb.LRange(ctx, "h:1:a-signals", 0, -1).Val(); p.Busy != 2 || len(signals) != 1 {
		t.Errorf("%+v, signals %v", p, signals)
	}
}

// The suspects of a queue are in its slot, and a queue like others to who looks.
func TestSuspectsOnACluster(t *testing.T) {
	rdb, _ := redistest.NewCluster(t)
	ctx := t.Context()
	i := inspect.New(rdb)
	for _, err := range []error{
		rdb.RPush(ctx, keys.ClusterSuspects("q0"), `{"class":"A","jid":"1","args":[]}`, `{"class":"A","jid":"2","args":[]}`).Err(),
		rdb.SAdd(ctx, keys.Queues, "q0.suspects").Err(),
	} {
		harness.OK(t, err)
	}
	list, err := i.Queues(ctx)
	stats, failed := i.Stats(ctx)
	if err != nil || failed != nil || len(list) != 1 || list[0].Name != "q0.suspects" || list[0].Size != 2 || stats.Enqueued != 2 {
		t.Errorf("%+v (%v), %+v (%v)", list, err, stats, failed)
	}
	var jids []string
	for job, err := range i.Queue("q0.suspects").Each(ctx) {
		harness.OK(t, err)
		jids = append(jids, job.JID)
	}
	if len(jids) != 2 {
		t.Errorf("jobs %q", jids)
	}
	if n, err := i.Queue("q0.suspects").Clear(ctx); err != nil || n != 2 || rdb.Exists(ctx, keys.ClusterSuspects("q0")).Val() != 0 {
		t.Errorf("cleared %d, %v", n, err)
	}
}
