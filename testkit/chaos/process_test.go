package chaos_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
)

// shopEnv makes a process of this binary a daemon of a user, on that Redis.
const shopEnv = "TESTKIT_SHOP"

func TestMain(m *testing.M) {
	if url := os.Getenv(shopEnv); url != "" {
		os.Exit(shop(url))
	}
	os.Exit(m.Run())
}

// shop is the main function of a user's daemon. Its one class takes a moment.
func shop(url string) int {
	options, err := redis.ParseURL(url)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	rdb := redis.NewClient(options)
	rec := chaos.NewRecorder(rdb, "shop")
	var jobs troupe.Registry
	troupe.HandleClass(&jobs, "Pack", troupe.HandlerFunc(func(ctx context.Context, _ *troupe.Payload) error {
		select {
		case <-time.After(200 * time.Millisecond):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}))
	return actors.Main(actors.Config{
		Redis: rdb, Registry: &jobs, Logger: zerolog.New(os.Stderr), Lease: 2 * time.Second,
		Capsules:   []actors.Capsule{{Concurrency: 5}},
		Middleware: []troupe.Middleware{rec.Middleware},
	})
}

// A user's own daemon is killed, another is paused past its lease: a third has
// all their jobs. Redis is killed and comes back with what it had written down.
func TestProcessesOfAUser(t *testing.T) {
	t.Parallel()
	server := testkit.NewServer(t, "--appendonly", "yes", "--appendfsync", "always")
	rdb := server.Client
	rec := chaos.NewRecorder(rdb, "shop")
	start := func(name string) *chaos.Process {
		p := chaos.Launch(t, name, exec.CommandContext(context.Background(), os.Args[0]), shopEnv+"="+server.URL(0))
		p.Ready()
		return p
	}
	dies, sleeps := start("dies"), start("sleeps")
	jobs := client.New(rdb)
	var jids []string
	for i := range 40 {
		jid := harness.Must(jobs.PushClass(t.Context(), "Pack", []any{i}))(t)
		jids = append(jids, jid)
	}
	testkit.Await(t, "some have begun", func() bool { return len(rec.Runs(t)) > 5 })
	dies.Kill()
	if dies.Running() {
		t.Error("killed, and running")
	}
	sleeps.Pause()
	server.Kill()
	server.Restart()
	testkit.Await(t, "redis has read its file", func() bool { return rdb.Ping(t.Context()).Err() == nil })
	lives := start("lives")
	testkit.Await(t, "all are done", func() bool { return len(rec.Done(t)) == len(jids) })
	// by now, or else it would go on as if nothing had happened
	testkit.Await(t, "sleeps is taken for dead", func() bool {
		ids, err := rdb.HKeys(t.Context(), "troupe:places").Result()
		return err == nil && !slices.ContainsFunc(ids, func(id string) bool { return strings.HasPrefix(id, sleeps.Ready()+"#") })
	})
	sleeps.Resume()
	sleeps.AwaitLog("fenced: this process was taken for dead and its jobs were put back by another")
	testkit.Await(t, "nothing is in progress", func() bool { return len(chaos.TakeInventory(t, rdb)) == 0 })
	chaos.RequireNothingLost(t, chaos.TakeInventory(t, rdb), jids, rec.Done(t), nil)
	chaos.RequireAtMostRuns(t, rec.Runs(t), 3) // the paused one may have taken a job of the dead one before
	for _, p := range []*chaos.Process{sleeps, lives} {
		p.Stop(30 * time.Second)
		if left := harness.Strs(harness.Drain(t, p), "left"); len(left) > 0 {
			t.Errorf("%s has left %v", p.Name, left)
		}
	}
}

// What a process says and how it ends is known.
func TestProcessIsRead(t *testing.T) {
	t.Parallel()
	p := chaos.Launch(t, "sh", exec.CommandContext(context.Background(), "sh", "-c",
		`echo '{"message":"hello","who":["a","b"]}'; echo "$GREETING" >&2; trap 'exit 7' TERM; echo '{"message":"ready"}'; while :; do sleep 0.01; done`),
		"GREETING=good day")
	p.AwaitLog("ready")
	if got := harness.Strs(p.AwaitLog("hello"), "who"); len(got) != 2 || got[1] != "b" {
		t.Errorf("field who is %q", got)
	}
	// The two outputs are read by two goroutines: one may lag behind the other.
	testkit.Await(t, "stderr is read", func() bool { return strings.Contains(p.Stderr(), "good day") })
	p.Pause()
	p.Signal(syscall.SIGTERM)
	p.Resume()
	if code := p.Exit(30 * time.Second); code != 7 {
		t.Errorf("exit code %d", code)
	}
	if since := time.Since(p.Ended()); since < 0 || since > time.Minute {
		t.Errorf("ended %s ago", since)
	}
}
