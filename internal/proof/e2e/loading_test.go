package e2e

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
)

// A daemon that is started while Redis reads its data, as after a restart of the machine, waits and then works.
func TestAStartWhileARealRedisLoads(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--rdbcompression", "no")
	ctx := t.Context()
	admin := redis.NewClient(&redis.Options{Addr: s.Addr})
	t.Cleanup(func() { _ = admin.Close() })
	if _, err := admin.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range 5000 {
			p.Set(ctx, fmt.Sprint("key", i), strings.Repeat("y", 1000), 0)
		}
		p.LPush(ctx, "queue:default", `{"class":"NoOp","args":[],"jid":"1","queue":"default"}`)
		p.SAdd(ctx, "queues", "default")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	harness.OK(t, admin.Save(ctx).Err())
	s.Kill()
	_, port, _ := net.SplitHostPort(s.Addr)
	chaos.Launch(t, "redis", exec.CommandContext(context.WithoutCancel(ctx), "redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", s.Dir,
		"--save", "", "--key-load-delay", "100000", "--loading-process-events-interval-bytes", "1024"))
	testkit.Await(t, "it loads", func() bool {
		err := admin.Ping(ctx).Err()
		return err != nil && strings.HasPrefix(err.Error(), "LOADING")
	})
	p := daemonSoon(t, s.URL(0), "handlers: {NoOp: {builtin: noop}}\n")
	const waits = "redis is loading its data; the start waits for it"
	p.AwaitLog(waits)
	harness.OK(t, admin.ConfigSet(ctx, "key-load-delay", "0").Err())
	testkit.Await(t, "the job is done", func() bool { return admin.Get(ctx, "stat:processed").Val() == "1" })
	harness.Equal(t, "the log tells times of the wait", len(p.Logged(waits)), 1)
	p.Stop(soon)
}
