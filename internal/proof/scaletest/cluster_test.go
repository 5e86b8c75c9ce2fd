package scaletest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// push pushes n jobs, one queue after the other.
func push(t *testing.T, c *client.Client, n int, arg string, opts ...client.Option) (jids []string) {
	t.Helper()
	for q := range 3 {
		var list [][]any
		for i := q; i < n; i += 3 {
			list = append(list, []any{arg, i})
		}
		got, err := c.PushBulkClass(t.Context(), "Job", func(yield func([]any) bool) {
			for _, args := range list {
				if !yield(args) {
					return
				}
			}
		}, append(opts, client.Queue(fmt.Sprintf("q%d", q)))...)
		harness.OK(t, err)
		jids = append(jids, got...)
	}
	return jids
}

// held counts what is in progress. One command may fail.
func held(t *testing.T, cluster *redistest.Cluster) (n int) {
	t.Helper()
	harness.AwaitFor(t, patience, "every node tells what is in progress", func() bool {
		units, err := inProgress(t.Context(), cluster)
		n = len(units)
		return err == nil
	})
	return n
}

func queued(t *testing.T, rdb *redis.ClusterClient) (n int64, err error) {
	t.Helper()
	for q := range 3 {
		some, err := rdb.LLen(t.Context(), keys.Queue(fmt.Sprintf("q%d", q))).Result()
		if err != nil {
			return 0, err
		}
		n += some
	}
	return n, nil
}

func TestADaemonOnACluster(t *testing.T) {
	rdb, cluster := redistest.NewCluster(t)
	ctx := t.Context()
	c := client.New(rdb)
	i := inspect.New(rdb)
	r := &record{fn: func(p *troupe.Payload) error {
		if _, again := p.Get("retry_count"); !again && strings.HasPrefix(string(p.Args()), `["fail"`) {
			return errors.New("the first run fails")
		}
		return nil
	}}
	cfg := config(rdb, r)
	cfg.Timeout = 200 * time.Millisecond
	harness.OK(t, i.Queue("q1").SetPaused(ctx, true))
	paused := harness.Must(c.PushClass(ctx, "Job", []any{"paused"}, client.Queue("q1")))(t)
	d := start(t, cfg)
	harness.AwaitFor(t, patience, "the process is listed", func() bool {
		set, err := i.Processes(ctx)
		return err == nil && len(set) == 1 && set[0].Identity == d.Identity()
	})
	if r.count(paused) != 0 {
		t.Error("a job of a paused queue ran")
	}
	harness.OK(t, i.Queue("q1").SetPaused(ctx, false))

	// several queues, a schedule, retries
	jids := append(push(t, c, 3000, "run"), paused)
	fails := push(t, c, 300, "fail")
	later := push(t, c, 30, "later", client.In(time.Second))
	harness.AwaitFor(t, patience, "all have run, some have failed", func() bool {
		return r.missing(jids...)+r.missing(fails...) == 0 && rdb.ZCard(ctx, "retry").Val() == 300
	})
	counts, err := i.RetrySet.RetryAll(ctx, inspect.Bulk{})
	if err != nil || counts.Done != 300 {
		t.Errorf("retried %+v, %v", counts, err)
	}
	harness.AwaitFor(t, patience, "retries and scheduled jobs have run", func() bool {
		for _, jid := range fails {
			if r.count(jid) < 2 {
				return false
			}
		}
		return r.missing(later...) == 0
	})
	for _, jid := range append(jids, later...) {
		if r.count(jid) != 1 {
			t.Fatalf("job %s ran %d times", jid, r.count(jid))
		}
	}
	harness.AwaitFor(t, patience, "nothing is in progress, all is counted", func() bool {
		stats, err := i.Stats(ctx)
		return err == nil && held(t, cluster) == 0 && stats.Processed == int64(len(jids)+2*len(fails)+len(later)) && stats.Failed == 300
	})

	// a stop puts back what runs
	waits := push(t, c, 6, "wait")
	harness.AwaitFor(t, patience, "the long jobs run", func() bool { return r.missing(waits...) == 0 })
	report, err := d.Stop(context.Background())
	waiting, failed := queued(t, rdb)
	if err != nil || failed != nil || len(report.Requeued) != 6 || waiting != 6 || held(t, cluster) != 0 {
		t.Errorf("%v, %v; %d queued (%v), %d in progress", report, err, waiting, failed, held(t, cluster))
	}
	harness.Equal(t, "registrations are left", rdb.HLen(ctx, keys.CommonOf("", true).Owners).Val()+rdb.SCard(ctx, keys.Processes).Val(), 0)
}

func TestAKilledDaemonOnAClusterLosesNothing(t *testing.T) {
	rdb, cluster := redistest.NewCluster(t)
	jids := push(t, client.New(rdb), 3000, "run")
	p := procs.Worker(t, "victim", cluster.URL())
	harness.AwaitFor(t, patience, "it works", func() bool { return strings.Count(p.Stdout(), "ran ") > 300 })
	p.Kill()
	left := held(t, cluster)
	var before []string
	for line := range strings.Lines(p.Stdout()) {
		if jid, ok := strings.CutPrefix(strings.TrimSpace(line), "ran "); ok {
			before = append(before, jid)
		}
	}
	r := &record{}
	for _, jid := range before {
		harness.OK(t, r.Perform(t.Context(), jobOf(jid)))
	}
	d := start(t, config(rdb, r))
	harness.AwaitFor(t, patience, "all have run", func() bool {
		n, err := queued(t, rdb)
		return err == nil && n == 0 && r.missing(jids...) == 0 && held(t, cluster) == 0
	})
	stop(t, d)
	twice := 0
	for _, jid := range jids {
		twice += r.count(jid) - 1
	}
	if left == 0 || twice > left {
		t.Errorf("%d jobs ran twice, %d were in progress at the kill", twice, left)
	}
	t.Logf("%d had run, %d were in progress at the kill, %d ran twice", len(before), left, twice)
}

func jobOf(jid string) *troupe.Payload {
	p, err := troupe.ParsePayload([]byte(`{"class":"Job","args":[],"jid":"` + jid + `"}`))
	if err != nil {
		panic(err)
	}
	return p
}
