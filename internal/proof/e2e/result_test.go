package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// The result of a job is kept exactly when the job is settled: after each kill -9 each of 3,000 jobs is either in Redis or has its
// result. Who waits meanwhile, through two clients, gets it.
func TestResultsUnderKills(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	rec := newRecords(t)
	ctx := t.Context()
	const n = 3000
	c, other := client.New(rdb), client.New(rdb)
	var jids []string
	for range n {
		jids = append(jids, harness.Must(c.PushClass(ctx, "Answer", []any{0.001}, client.KeepResult(time.Hour)))(t))
	}
	var waiting sync.WaitGroup
	for i := range 300 {
		waiting.Go(func() {
			jid, by := jids[i*n/300], c
			if i%2 == 1 {
				by = other
			}
			if got, err := client.Await[string](ctx, by, jid); err != nil || got != jid {
				t.Errorf("the waiter for %s got %q, %v", jid, got, err)
			}
		})
	}
	kept := func() int { return len(rdb.Keys(ctx, "troupe:result:*").Val()) }
	spec := workerSpec{Redis: url, Records: rec.url, Lease: 2 * time.Second}
	w := startWorker(t, spec)
	for kill := 1; kill <= 5; kill++ {
		testkit.Await(t, "some more are done", func() bool { return kept() >= kill*n/8+rand.IntN(n/16) })
		w.Kill()
		here := leftovers(t, rdb)
		for _, jid := range jids {
			in := slices.ContainsFunc(here, func(l string) bool { return strings.Contains(l, `"jid":"`+jid+`"`) })
			if has := rdb.Exists(ctx, "troupe:result:"+jid).Val() == 1; has == in {
				t.Fatalf("after kill %d: job %s is in Redis: %v, and its result is kept: %v", kill, jid, in, has)
			}
		}
		w = startWorker(t, spec)
	}
	testkit.Await(t, "all are done", func() bool { return kept() == n })
	waiting.Wait()
	w.Stop(soon)
	clean(t, rdb)
}

// The progress of a job is seen while it runs, and goes with its process: one that is killed leaves no bar behind that lasts.
func TestProgressOfAKilledProcess(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	rec := newRecords(t)
	ctx := t.Context()
	jid := harness.Must(client.New(rdb).PushClass(ctx, "Answer", []any{60.0}))(t)
	w := startWorker(t, workerSpec{Redis: url, Records: rec.url})
	i := inspect.New(rdb)
	testkit.Await(t, "it tells its progress", func() bool {
		p, err := i.Progress(ctx, jid)
		return err == nil && p.Done >= 10 && p.Total == 600 && p.Text == "tenths"
	})
	w.Kill()
	all := rdb.Keys(ctx, "troupe:progress:*").Val()
	if len(all) != 1 {
		t.Fatalf("keys %q", all)
	}
	identity := strings.TrimPrefix(all[0], "troupe:progress:")
	if ttl, beat := rdb.TTL(ctx, all[0]).Val(), rdb.TTL(ctx, identity).Val(); ttl <= 0 || ttl > time.Minute || beat <= 0 || ttl > beat+15*time.Second {
		t.Errorf("it lives for %v, its process for %v", ttl, beat)
	}
	rdb.Del(ctx, identity) // its beat is over
	works, err := i.Works(ctx)
	if err != nil || len(works) != 0 {
		t.Errorf("running jobs of a dead process: %v, %v", fmt.Sprint(works), err)
	}
	rdb.Del(ctx, all[0])
	if _, err := i.Progress(ctx, jid); !errors.Is(err, inspect.ErrNotFound) {
		t.Errorf("with its keys gone: %v", err)
	}
}
