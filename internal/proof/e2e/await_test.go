package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/testkit"
)

// Redis is killed while processes wait for two jobs, and starts again with its data: one job ends while it is away, the other one
// long after. Each waiter gets its answer, by clients of this process and by the command.
func TestAwaitOverARestartOfRedis(t *testing.T) {
	t.Parallel()
	procs.Command(t) // the jobs begin when it is built
	s := testkit.NewServer(t, "--appendonly", "yes", "--appendfsync", "always")
	rec := newRecords(t)
	w := startWorker(t, workerSpec{Redis: s.URL(0), Records: rec.url})
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	second := redis.NewClient(s.Options())
	defer func() { _ = second.Close() }()
	c, other := client.New(s.Client), client.New(second)
	var waiting sync.WaitGroup
	var jids []string
	for _, takes := range []float64{8, 20} {
		jid := harness.Must(c.PushClass(ctx, "Answer", []any{takes}))(t)
		jids = append(jids, jid)
		rec.await(soon, 1, "start", jid)
		for _, by := range []*client.Client{c, other} {
			waiting.Go(func() {
				if got, err := client.Await[string](ctx, by, jid); err != nil || got != jid {
					t.Errorf("the waiter for the job of %v s got %q, %v", takes, got, err)
				}
			})
		}
		p := procs.Troupe(t, nil, "await", jid, "--timeout", "110s", "--redis", s.URL(0))
		waiting.Go(func() {
			if code := p.Exit(2 * time.Minute); code != 0 || strings.TrimSpace(p.Stdout()) != fmt.Sprintf("%q", jid) {
				t.Errorf("troupe await of the job of %v s: %d, %s, %s", takes, code, p.Stdout(), p.Stderr())
			}
		})
	}
	for _, jid := range jids {
		testkit.Await(t, "three wait", func() bool {
			channel := "troupe:result:" + jid
			return s.Client.PubSubNumSub(ctx, channel).Val()[channel] == 3
		})
	}
	s.Kill()
	rec.await(soon, 1, "end", jids[0])
	s.Restart()
	waiting.Wait()
	w.Stop(soon)
}
