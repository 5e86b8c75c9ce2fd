package scaletest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// twoShards are two redis-servers with a client of both.
func twoShards(t *testing.T) (servers [2]*redistest.Server, rdbs [2]*redis.Client, c *client.Sharded) {
	t.Helper()
	for i := range servers {
		servers[i] = redistest.Start(t)
		rdbs[i] = redis.NewClient(&redis.Options{Addr: servers[i].Addr, MaxRetries: -1})
		t.Cleanup(func() { _ = rdbs[i].Close() })
	}
	c, err := client.NewSharded([]client.Shard{
		{Name: "orders", Redis: rdbs[0], Queues: []string{"orders"}},
		{Name: "mail", Redis: rdbs[1], Queues: []string{"mail"}},
	})
	harness.OK(t, err)
	return servers, rdbs, c
}

func shardsOf(rdbs [2]*redis.Client, r *record) []actors.Shard {
	var shards []actors.Shard
	for i, queue := range []string{"orders", "mail"} {
		cfg := config(rdbs[i], r)
		cfg.Timeout = 300 * time.Millisecond
		cfg.Capsules = []actors.Capsule{{Concurrency: 5, Queues: fetch.Strict{queue}}}
		shards = append(shards, actors.Shard{Name: queue, Config: cfg})
	}
	return shards
}

func shardPush(t *testing.T, c *client.Sharded, queue, arg string, n int, opts ...client.Option) (jids []string) {
	t.Helper()
	for range n {
		jid := harness.Must(c.PushClass(t.Context(), "Job", []any{arg}, append(opts, client.Queue(queue))...))(t)
		jids = append(jids, jid)
	}
	return jids
}

func TestEachShardIsAnOrdinaryDeployment(t *testing.T) {
	servers, rdbs, c := twoShards(t)
	r := &record{}
	g := harness.Must(actors.NewGroup(shardsOf(rdbs, r)...))(t)
	harness.OK(t, g.Start(t.Context()))
	jids := append(shardPush(t, c, "orders", "run", 50), shardPush(t, c, "mail", "run", 50)...)
	jids = append(jids, shardPush(t, c, "mail", "later", 3, client.In(time.Second))...)
	harness.AwaitFor(t, patience, "all have run", func() bool { return r.missing(jids...) == 0 })
	for i, d := range g.Daemons() {
		inspector := inspect.New(rdbs[i])
		harness.AwaitFor(t, patience, "each Redis has its process and its numbers", func() bool {
			set, err := inspector.Processes(t.Context())
			stats, serr := inspector.Stats(t.Context())
			return err == nil && serr == nil && len(set) == 1 && set[0].Identity == d.Identity() && stats.Processed == int64(50+3*i)
		})
	}

	// an outage of one does not concern the other
	servers[0].Kill()
	more := shardPush(t, c, "mail", "run", 50)
	harness.AwaitFor(t, patience, "the other shard works on", func() bool { return r.missing(more...) == 0 })
	harness.OK(t, servers[0].Restart())
	var back []string
	harness.AwaitFor(t, patience, "pushes go through again", func() bool {
		jid, err := c.PushClass(t.Context(), "Job", []any{"run"}, client.Queue("orders"))
		back = append(back, jid)
		return err == nil
	})
	harness.AwaitFor(t, patience, "the shard is back", func() bool { return r.missing(back[len(back)-1]) == 0 })

	// one stop for all
	waits := append(shardPush(t, c, "orders", "wait", 2), shardPush(t, c, "mail", "wait", 3)...)
	harness.AwaitFor(t, patience, "long jobs run", func() bool { return r.missing(waits...) == 0 })
	began := time.Now()
	reports, err := g.Stop(context.Background())
	if err != nil || len(reports[0].Requeued) != 2 || len(reports[1].Requeued) != 3 || g.Err() != nil {
		t.Errorf("%v, %v, %v", reports, err, g.Err())
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the stop took %v", took)
	}
	for i, queue := range []string{"orders", "mail"} {
		if n := rdbs[i].LLen(t.Context(), keys.Queue(queue)).Val(); n != int64(2+i) || rdbs[i].SCard(t.Context(), keys.Processes).Val() != 0 {
			t.Errorf("%s: %d jobs", queue, n)
		}
	}
}

func TestAGroupStandsAndFallsTogether(t *testing.T) {
	servers, rdbs, _ := twoShards(t)
	t.Run("one that ends takes the others with it", func(t *testing.T) {
		g := harness.Must(actors.NewGroup(shardsOf(rdbs, &record{})...))(t)
		harness.OK(t, g.Start(t.Context()))
		harness.Must(g.Daemons()[1].Stop(context.Background()))(t)
		select {
		case <-g.Done():
		case <-time.After(time.Minute):
			t.Fatal("the group goes on with one shard")
		}
	})
	t.Run("one that cannot start", func(t *testing.T) {
		servers[1].Kill()
		g := harness.Must(actors.NewGroup(shardsOf(rdbs, &record{})...))(t)
		harness.ErrorHas(t, "started", g.Start(t.Context()), "shard mail: redis at")
		if n := rdbs[0].SCard(t.Context(), keys.Processes).Val(); n != 0 {
			t.Error("the other shard still has the process")
		}
	})
	t.Run("a name that comes twice", func(t *testing.T) {
		shards := shardsOf(rdbs, &record{})
		shards[1].Name = "orders"
		if _, err := actors.NewGroup(shards...); err == nil || !strings.Contains(err.Error(), "comes twice") {
			t.Error(err)
		}
	})
}

// TestTheCommandRunsShards starts the real command with a file.
func TestTheCommandRunsShards(t *testing.T) {
	servers, rdbs, c := twoShards(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "troupe.yml")
	text := "handlers: {Job: {builtin: noop}}\nshards:\n" +
		"  orders: {redis: \"" + servers[0].URL(0) + "\", queues: [orders]}\n" +
		"  mail: {redis: \"" + servers[1].URL(0) + "\", queues: [mail]}\n"
	harness.OK(t, os.WriteFile(file, []byte(text), 0o600))
	p := procs.Troupe(t, nil, "run", "-C", file)
	shardPush(t, c, "orders", "run", 5)
	shardPush(t, c, "mail", "run", 7)
	harness.AwaitFor(t, patience, "the jobs are done", func() bool { // one that was only taken would go back at the stop
		waiting := rdbs[0].LLen(t.Context(), "queue:orders").Val() + rdbs[1].LLen(t.Context(), "queue:mail").Val()
		return waiting == 0 && len(rdbs[0].Keys(t.Context(), claims+"*").Val())+len(rdbs[1].Keys(t.Context(), claims+"*").Val()) == 0
	})
	p.Signal(syscall.SIGTERM)
	harness.Equal(t, "exit code", p.Exit(time.Minute), 0)
	for i, want := range []string{"5", "7"} {
		if got := rdbs[i].Get(t.Context(), keys.StatProcessed).Val(); got != want {
			t.Errorf("shard %d has run %q jobs, want %s", i, got, want)
		}
		if n := rdbs[i].SCard(t.Context(), keys.Processes).Val(); n != 0 {
			t.Errorf("shard %d still lists the process", i)
		}
	}
}
