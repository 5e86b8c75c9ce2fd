package inspect_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// servers runs a test on one server and on a cluster.
func servers(t *testing.T, test func(t *testing.T, i *inspect.Inspector, rdb redis.UniversalClient)) {
	t.Run("server", func(t *testing.T) {
		i, rdb, _ := start(t)
		test(t, i, rdb)
	})
	t.Run("cluster", func(t *testing.T) {
		rdb, _ := redistest.NewCluster(t)
		test(t, inspect.New(rdb), rdb)
	})
}

func TestMoveToAnotherQueue(t *testing.T) {
	servers(t, func(t *testing.T, i *inspect.Inspector, rdb redis.UniversalClient) {
		ctx := t.Context()
		raw := `{"class":"A","odd":{"x" : 1e3,"s":"\u00fc"},"queue":"a","jid":"j1","args":[1.0]}`
		push(t, rdb, "a", raw, raw, job(2, "a"))
		push(t, rdb, "b", job(3, "b"))
		for _, want := range []inspect.Outcome{inspect.Done, inspect.Done, inspect.Gone} {
			if got := harness.Must(i.Queue("a").Job(raw).Move(ctx, i.Queue("b")))(t); got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		}
		moved := strings.Replace(raw, `"queue":"a"`, `"queue":"b"`, 1)
		harness.EqualList(t, "the other queue has", rdb.LRange(ctx, "queue:b", 0, -1).Val(), []string{moved, moved, job(3, "b")})
		harness.EqualList(t, "left", rdb.LRange(ctx, "queue:a", 0, -1).Val(), []string{job(2, "a")})
		if got := harness.Must(i.Queue("a").Job(job(2, "a")).Move(ctx, i.Queue("new")))(t); got != inspect.Done || !rdb.SIsMember(ctx, keys.Queues, "new").Val() {
			t.Errorf("a new queue: %v", got)
		}
		for _, to := range []string{"b", "", "a.suspects"} {
			if got, err := i.Queue("b").Job(moved).Move(ctx, i.Queue(to)); err == nil {
				t.Errorf("to %q: %v", to, got)
			}
		}
		push(t, rdb, "a", "junk")
		if got, err := i.Queue("a").Job("junk").Move(ctx, i.Queue("b")); err == nil || !inspect.IsFault(err) {
			t.Errorf("what is no job: %v, %v", got, err)
		}
		harness.OK(t, rdb.Set(ctx, "queue:odd", "x", 0).Err())
		if got, err := i.Queue("b").Job(moved).Move(ctx, i.Queue("odd")); err == nil || !inspect.IsFault(err) || rdb.LLen(ctx, "queue:b").Val() != 3 {
			t.Errorf("to a key of another type: %v, %v", got, err)
		}
	})
}

func TestKillOfAQueuedJob(t *testing.T) {
	servers(t, func(t *testing.T, i *inspect.Inspector, rdb redis.UniversalClient) {
		ctx := t.Context()
		i.DeadMax, i.DeadTimeout = 3, time.Hour
		push(t, rdb, "a", job(1, "a"), "[5]", job(2, "a"))
		add(t, rdb, "dead", 5, "old")
		for _, raw := range []string{job(1, "a"), "[5]"} {
			if got := harness.Must(i.Queue("a").Job(raw).Kill(ctx))(t); got != inspect.Done {
				t.Errorf("%s: %v", raw, got)
			}
			if got := harness.Must(i.Queue("a").Job(raw).Kill(ctx))(t); got != inspect.Gone {
				t.Errorf("%s again: %v", raw, got)
			}
		}
		var seen []string
		for _, e := range all(t, i.DeadSet.Each(ctx)) {
			seen = append(seen, e.Summary().Class+" "+e.Queue)
			if time.Since(e.At) > time.Minute {
				t.Errorf("%s has died at %v", e.Raw, e.At)
			}
		}
		slices.Sort(seen)
		if len(seen) != 2 || seen[0] == seen[1] || !slices.Contains(seen, "Troupe::NotAJob a") {
			t.Errorf("dead: %q", seen)
		}
		harness.EqualList(t, "left", rdb.LRange(ctx, "queue:a", 0, -1).Val(), []string{job(2, "a")})
		for n := range 4 {
			push(t, rdb, "a", job(10+n, "a"))
			harness.Must(i.Queue("a").Job(job(10+n, "a")).Kill(ctx))(t)
		}
		if n := rdb.ZCard(ctx, "dead").Val(); n != 2 { // DeadMax-1, as with Sidekiq
			t.Errorf("%d are dead", n)
		}
	})
}

// A walk from the oldest job on meets each, whatever it does with them, and no job is moved twice
// or lost while others take from the queue.
func TestAWalkMovesEachJobOnce(t *testing.T) {
	servers(t, func(t *testing.T, i *inspect.Inspector, rdb redis.UniversalClient) {
		ctx := t.Context()
		const jobs = 400
		for n := range jobs {
			push(t, rdb, "a", job(n, "a"))
		}
		took := make(chan []string, 1)
		var begun sync.WaitGroup
		begun.Add(1)
		go func() {
			var mine []string
			for n := range 100 {
				if raw, err := rdb.RPop(ctx, "queue:a").Result(); err == nil {
					mine = append(mine, i.Queue("a").Job(raw).JID)
				}
				if n == 10 {
					begun.Done()
				}
			}
			took <- mine
		}()
		begun.Wait()
		for j, err := range i.Queue("a").OldestFirst(ctx) {
			harness.OK(t, err)
			harness.Must(j.Move(ctx, i.Queue("b")))(t)
		}
		got := append(<-took, jids(t, rdb, "b")...)
		slices.Sort(got)
		want := make([]string, jobs)
		for n := range want {
			want[n] = jid(n)
		}
		if left := rdb.LLen(ctx, "queue:a").Val(); left != 0 || fmt.Sprint(slices.Compact(slices.Clone(got))) != fmt.Sprint(want) {
			t.Errorf("%d are left, and there are %d of %d jobs", left, len(slices.Compact(got)), jobs)
		}
		if len(got) != jobs {
			t.Logf("%d were taken between the two steps", len(got)-jobs) // on a cluster
			if _, server := rdb.(*redis.Client); server {
				t.Error("on one server there is one step")
			}
		}
	})
}
