package bulk

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// pushed puts jobs into the queue a; those of odd numbers are of the class C1, the others of C0.
func pushed(t *testing.T, rdb *redis.Client, n int) {
	t.Helper()
	jobs := make([]any, n)
	for i := range jobs {
		jobs[i] = fmt.Sprintf(`{"class":"C%d","args":[%d],"queue":"a","jid":"j%d","retry":true}`, i%2, i, i)
	}
	harness.OK(t, rdb.LPush(t.Context(), "queue:a", jobs...).Err())
}

func ofQueue(t *testing.T, i *inspect.Inspector, action, to string) *Task {
	t.Helper()
	b := task(t, i, action, "")
	b.Queue = i.Queue("a")
	if to != "" {
		b.To = i.Queue(to)
	}
	return b
}

func TestJobsOfAQueue(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx, i := t.Context(), inspect.New(rdb)
	pushed(t, rdb, 300)
	jids := func(queue string) (all []string) {
		for j, err := range i.Queue(queue).OldestFirst(ctx) {
			harness.OK(t, err)
			all = append(all, j.JID)
		}
		return all
	}
	b := ofQueue(t, i, "move", "b")
	b.Filter = Filter{Class: "C1"}
	if total, some, err := b.Preview(ctx, 2); err != nil || total != 150 || len(some) != 2 || some[0].Record().JID != "j1" {
		t.Fatalf("%d, %v, %v", total, some, err)
	}
	b.Limit = 100
	if c, err := b.Run(ctx, func(Counts) {}); err != nil || c != (Counts{Done: 100}) {
		t.Errorf("with a limit: %+v, %v", c, err)
	}
	b.Limit = 0
	if c, err := b.Run(ctx, func(Counts) {}); err != nil || c != (Counts{Done: 50}) {
		t.Errorf("the others: %+v, %v", c, err)
	}
	if got := jids("b"); len(got) != 150 || got[0] != "j1" || got[149] != "j299" {
		t.Errorf("moved: %q", got)
	}
	named := ofQueue(t, i, "kill", "")
	named.JIDs = []string{"j298", "j0", "j1"}
	if c, err := named.Run(ctx, func(Counts) {}); err != nil || c != (Counts{Done: 2, Gone: 1}) || rdb.ZCard(ctx, "dead").Val() != 2 {
		t.Errorf("by jid: %+v, %v", c, err)
	}
	rdb.LPush(ctx, "queue:a", "junk")
	if c, err := ofQueue(t, i, "move", "b").Run(ctx, func(Counts) {}); err != nil || c.Done != 148 || c.Left != 1 || c.Fault == "" {
		t.Errorf("what is no job: %+v, %v", c, err)
	}
	if c, err := ofQueue(t, i, "delete", "").Run(ctx, func(Counts) {}); err != nil || c != (Counts{Done: 1}) || rdb.LLen(ctx, "queue:a").Val() != 0 {
		t.Errorf("the rest: %+v, %v", c, err)
	}
}

// What cannot be is refused before anything is done.
func TestWhatIsNoneForAPlace(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx, i := t.Context(), inspect.New(rdb)
	pushed(t, rdb, 1)
	fill(t, rdb, "retry", 1)
	set := task(t, i, "move", "retry")
	set.To = i.Queue("b")
	for want, b := range map[string]*Task{
		"retry of queue:a: a job that waits":     ofQueue(t, i, "retry", ""),
		"reschedule of queue:a":                  ofQueue(t, i, "reschedule", ""),
		"got no queue to move to":                ofQueue(t, i, "move", ""),
		"expected another one":                   ofQueue(t, i, "move", "a"),
		"a name that is not empty":               ofQueue(t, i, "move", "b.suspects"),
		"move of retry: only a job of a queue":   set,
		"kill of dead: what is dead stays so, a": task(t, i, "kill", "dead"),
	} {
		if c, err := b.Run(ctx, func(Counts) {}); err == nil || !strings.Contains(err.Error(), want) || c != (Counts{}) {
			t.Errorf("%s: %+v, %v", want, c, err)
		}
		if _, _, err := b.Preview(ctx, 1); err == nil {
			t.Errorf("%s: no error of a preview", want)
		}
	}
	if rdb.LLen(ctx, "queue:a").Val() != 1 || rdb.ZCard(ctx, "retry").Val() != 1 {
		t.Error("something was done")
	}
}

// While a daemon takes from both queues, jobs are moved and killed: each runs once or is dead, and
// none is lost.
func TestJobsAreMovedWhileADaemonTakesThem(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx, i := t.Context(), inspect.New(rdb)
	const jobs = 6000
	pushed(t, rdb, jobs)
	var mu sync.Mutex
	ran := map[string]int{}
	var moved int
	var r troupe.Registry
	for _, class := range []string{"C0", "C1"} {
		troupe.HandleClass(&r, class, troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error {
			mu.Lock()
			defer mu.Unlock()
			if ran[p.JID()]++; p.Queue() == "b" {
				moved++
			}
			return nil
		}))
	}
	sums := map[string]*Counts{"move": {}, "kill": {}}
	var tasks, begun sync.WaitGroup
	begun.Add(len(sums))
	for action, sum := range sums {
		b := ofQueue(t, i, action, map[string]string{"move": "b"}[action])
		b.Filter.Class = map[string]string{"move": "C0", "kill": "C1"}[action]
		tasks.Go(func() {
			c, err := b.Run(ctx, func(c Counts) {
				if c.Sum() == 100 {
					begun.Done()
				}
			})
			if *sum = c; err != nil {
				t.Error(err)
			}
		})
	}
	begun.Wait()
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Capsules: []actors.Capsule{
		{Name: "a", Concurrency: 3, Queues: actors.Strict{"a"}}, {Name: "b", Concurrency: 3, Queues: actors.Strict{"b"}},
	}})
	tasks.Wait()
	dead := func() int { return int(rdb.ZCard(ctx, "dead").Val()) }
	testkit.Await(t, "all have run or are dead", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(ran)+dead() >= jobs && rdb.LLen(ctx, "queue:a").Val()+rdb.LLen(ctx, "queue:b").Val() == 0
	})
	k.Stop()
	for e, err := range i.DeadSet.Each(ctx) {
		harness.OK(t, err)
		ran[e.JID]++
	}
	twice := maps.Clone(ran)
	maps.DeleteFunc(twice, func(_ string, n int) bool { return n == 1 })
	if len(ran) != jobs || len(twice) > 0 {
		t.Errorf("%d of %d jobs, more than once: %v", len(ran), jobs, slices.Sorted(maps.Keys(twice)))
	}
	if moved != sums["move"].Done || dead() != sums["kill"].Done || moved < 100 || dead() < 100 || moved+dead() == jobs {
		t.Errorf("%d were moved, %d are dead, and the tasks tell %+v and %+v", moved, dead(), *sums["move"], *sums["kill"])
	}
	t.Logf("%d were moved, %d killed, %d ran from the first queue", moved, dead(), jobs-moved-dead())
}

// A queue that go-workers without a namespace shares has jobs of the same kind, whatever their fields.
func TestJobsOfGoWorkers(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx, i := t.Context(), inspect.New(rdb)
	harness.OK(t, rdb.LPush(ctx, "queue:a", `{"queue":"a","class":"","args":{"id":5},"jid":"g1","enqueued_at":1795000000.5,"at":1795000000.5}`).Err())
	if c, err := ofQueue(t, i, "move", "b").Run(ctx, func(Counts) {}); err != nil || c != (Counts{Done: 1}) {
		t.Errorf("%+v, %v", c, err)
	}
	if got := rdb.LRange(ctx, "queue:b", 0, -1).Val(); len(got) != 1 || got[0] != `{"queue":"b","class":"","args":{"id":5},"jid":"g1","enqueued_at":1795000000.5,"at":1795000000.5}` {
		t.Errorf("%q", got)
	}
}
