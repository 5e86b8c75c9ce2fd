package actors_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// What a job pushes by client.Within is in Redis when it is done, and after no other end of its run.
func TestWhatARunPushesEntersWithItsAck(t *testing.T) {
	for outcome, c := range map[string]struct {
		err    error
		pushed bool
	}{
		"done": {nil, true}, "failed": {errors.New("no"), false}, "discarded": {troupe.Discard(errors.New("no")), false},
		"dead": {troupe.Kill(errors.New("no")), false}, "parked": {troupe.Park(time.Hour, errors.New("later")), false}, "moved": {troupe.MoveTo("other"), false},
	} {
		t.Run(outcome, func(t *testing.T) {
			rdb := testkit.Redis(t)
			var r troupe.Registry
			var late atomic.Pointer[context.Context]
			troupe.HandleClass(&r, "Parent", troupe.HandlerFunc(func(ctx context.Context, _ *troupe.Payload) error {
				late.Store(&ctx)
				within := client.Within(ctx)
				if _, err := within.PushClass(ctx, "Child", []any{1}, client.Queue("low"), client.JID("c1")); err != nil {
					return err
				}
				if _, err := within.PushClass(ctx, "Child", []any{2}, client.In(time.Hour), client.JID("c2")); err != nil {
					return err
				}
				if n := rdb.LLen(ctx, "queue:low").Val() + rdb.ZCard(ctx, "schedule").Val(); n != 0 {
					t.Errorf("%d jobs are in Redis before the end of the run", n)
				}
				return c.err
			}))
			k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r})
			k.PushClass("Parent", nil, client.JID("p1"))
			k.Await("the run has ended", func() bool { return k.Settled() && late.Load() != nil })
			k.Stop()
			children := rdb.LRange(ctx, "queue:low", 0, -1).Val()
			for _, m := range rdb.ZRange(ctx, "schedule", 0, -1).Val() {
				if strings.Contains(m, "Child") {
					children = append(children, m)
				}
			}
			want := 0
			if c.pushed {
				want = 2
			}
			harness.Equal(t, "children", len(children), want)
			for _, child := range children {
				if !strings.Contains(child, `"t_parent":"p1"`) {
					t.Errorf("the child does not name its parent: %s", child)
				}
			}
			if _, err := client.Within(*late.Load()).PushClass(ctx, "Child", nil); err == nil || !strings.Contains(err.Error(), "after the end of the run") {
				t.Errorf("a push after the end of the run: %v", err)
			}
		})
	}
}

// A panic, a run that was fenced or given up, and one that is requeued at the deadline of a stop push nothing.
func TestARunThatIsNotOursPushesNothing(t *testing.T) {
	push := func(ctx context.Context) {
		if _, err := client.Within(ctx).PushClass(ctx, "Child", nil, client.Queue("low")); err != nil {
			t.Error(err)
		}
	}
	t.Run("panic", func(t *testing.T) {
		rdb := testkit.Redis(t)
		var r troupe.Registry
		troupe.HandleClass(&r, "Parent", troupe.HandlerFunc(func(ctx context.Context, _ *troupe.Payload) error {
			push(ctx)
			panic("no")
		}))
		k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r})
		k.PushClass("Parent", nil)
		k.Await("it is to be retried", func() bool { return rdb.ZCard(ctx, "retry").Val() == 1 })
		harness.Equal(t, "children", rdb.LLen(ctx, "queue:low").Val(), 0)
	})
	t.Run("requeued", func(t *testing.T) {
		rdb := testkit.Redis(t)
		var r troupe.Registry
		started, end := make(chan struct{}), make(chan struct{})
		troupe.HandleClass(&r, "Parent", troupe.HandlerFunc(func(ctx context.Context, _ *troupe.Payload) error {
			push(ctx)
			close(started)
			<-end
			return nil
		}))
		k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Timeout: 10 * time.Millisecond, Grace: time.Millisecond})
		k.PushClass("Parent", nil)
		<-started
		k.Stop()
		close(end)
		harness.Equal(t, "children", rdb.LLen(ctx, "queue:low").Val(), 0)
		harness.Equal(t, "requeued", rdb.LLen(ctx, "queue:default").Val(), 1)
	})
}

// A job whose child a queue refuses stays in progress, and is acked when the queue is mended.
func TestAJobWhoseChildIsRefusedWaits(t *testing.T) {
	rdb := testkit.Redis(t)
	var r troupe.Registry
	troupe.HandleClass(&r, "Parent", troupe.HandlerFunc(func(ctx context.Context, _ *troupe.Payload) error {
		_, err := client.Within(ctx).PushClass(ctx, "Child", nil, client.Queue("low"))
		return err
	}))
	var ran atomic.Int64
	troupe.HandleClass(&r, "Other", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error {
		ran.Add(1)
		return nil
	}))
	if err := rdb.Set(ctx, "queue:low", "not a list", 0).Err(); err != nil {
		t.Fatal(err)
	}
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Capsules: []actors.Capsule{{Concurrency: 2}}})
	for range 5 {
		k.PushClass("Parent", nil)
	}
	for range 20 {
		k.PushClass("Other", nil)
	}
	k.Await("the others have run", func() bool { return ran.Load() == 20 })
	k.Await("the others are acked", func() bool { return inProgress(t, rdb) == 5 })
	rdb.Del(ctx, "queue:low")
	k.Await("all are done", k.Settled)
	harness.Equal(t, "children", rdb.LLen(ctx, "queue:low").Val(), 5)
}

// The bounds of a run, and what cannot be done at all, are errors of the push.
func TestWithinSaysWhatItCannotDo(t *testing.T) {
	refusal := func(t *testing.T, cfg actors.Config, push func(ctx context.Context) error) error {
		t.Helper()
		var r troupe.Registry
		got := make(chan error, 10)
		troupe.HandleClass(&r, "Parent", troupe.HandlerFunc(func(ctx context.Context, _ *troupe.Payload) error {
			got <- push(ctx)
			return nil
		}))
		cfg.Registry = &r
		k := testkit.Start(t, cfg)
		k.PushClass("Parent", nil)
		err := <-got
		k.Await("done", k.Settled)
		k.Stop()
		return err
	}
	one := func(opts ...client.Option) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			_, err := client.Within(ctx).PushClass(ctx, "Child", nil, opts...)
			return err
		}
	}
	field := func(t *testing.T, err error, text string) {
		t.Helper()
		if f := new(client.FieldError); !errors.As(err, &f) || !strings.Contains(err.Error(), text) {
			t.Errorf("the error is %v, expected a FieldError with %q", err, text)
		}
	}
	t.Run("too many", func(t *testing.T) {
		rdb := testkit.Redis(t)
		err := refusal(t, actors.Config{Redis: rdb}, func(ctx context.Context) error {
			for i := range 1001 {
				if err := one(client.Queue("low"))(ctx); err != nil {
					if i != 1000 {
						t.Errorf("push %d failed", i)
					}
					return err
				}
			}
			return nil
		})
		field(t, err, "1,000 jobs and 1.0 MB at most")
		harness.Equal(t, "children", rdb.LLen(ctx, "queue:low").Val(), 1000)
	})
	t.Run("too large", func(t *testing.T) {
		field(t, refusal(t, actors.Config{Redis: testkit.Redis(t)}, one(client.Set("x", strings.Repeat("x", 1<<20)))), "at most")
	})
	t.Run("basic", func(t *testing.T) {
		field(t, refusal(t, actors.Config{Redis: testkit.Redis(t), Capsules: []actors.Capsule{{Fetch: fetch.NewBasic}}}, one()), "pushes nothing with an ack")
	})
	t.Run("cluster", func(t *testing.T) {
		rdb, _ := redistest.NewCluster(t)
		field(t, refusal(t, actors.Config{Redis: rdb}, one(client.Queue("low"))), "in another slot")
		field(t, refusal(t, actors.Config{Redis: rdb}, one(client.In(time.Hour))), "in another slot")
		if err := refusal(t, actors.Config{Redis: rdb, Capsules: []actors.Capsule{{Queues: fetch.Strict{"default"}}}}, one(client.Queue("default"), client.Retry(0))); err != nil {
			t.Errorf("a push into the own queue: %v", err)
		}
	})
	t.Run("no job", func(t *testing.T) { field(t, one()(t.Context()), "belongs to no job") })
}

// Each job of a chain is there when the one before is done; a dead one keeps those behind it, and a retry from the
// dead set carries on.
func TestAChainRunsInOrder(t *testing.T) {
	rdb := testkit.Redis(t)
	var r troupe.Registry
	var order []string
	var fail atomic.Bool
	fail.Store(true)
	troupe.HandleClass(&r, "Link", troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
		args := string(p.Args())
		if args == "[3]" && fail.Load() {
			return troupe.Kill(errors.New("not now"))
		}
		order = append(order, args)
		return nil
	}))
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Capsules: []actors.Capsule{{Concurrency: 1, Queues: fetch.Strict{"default", "low"}}}})
	c := client.New(rdb)
	var items []client.Item
	for i := 1; i <= 5; i++ {
		items = append(items, client.Job(link{i}, client.Queue([]string{"default", "low"}[i%2])))
	}
	jids, err := c.PushChain(ctx, items...)
	if err != nil || len(jids) != 5 {
		t.Fatal(jids, err)
	}
	k.Await("the third is dead", func() bool { return rdb.ZCard(ctx, "dead").Val() == 1 && k.Settled() })
	dead := rdb.ZRange(ctx, "dead", 0, -1).Val()[0]
	if !strings.Contains(dead, jids[2]) || !strings.Contains(dead, `"t_parent":"`+jids[1]+`"`) || strings.Count(dead, "t_next") != 1 {
		t.Errorf("the dead link: %s", dead)
	}
	fail.Store(false)
	rdb.ZRem(ctx, "dead", dead)
	rdb.LPush(ctx, "queue:low", dead)
	k.Await("all have run", func() bool { return k.Stats().Processed == 6 && k.Settled() })
	harness.Equal(t, "order", strings.Join(order, ""), "[1][2][3][4][5]")
}

type link struct {
	N int `arg:"0"`
}

func (link) Class() string { return "Link" }

// A chain that cannot be carried on is not begun: the job is in the dead set, with those behind it.
func TestAChainThatCannotBeCarriedOn(t *testing.T) {
	for name, c := range map[string]struct {
		fetch fetch.Factory
		next  string
		why   string
	}{
		"of a basic fetcher": {fetch.NewBasic, `["{\"class\":\"Link\",\"args\":[2],\"queue\":\"default\",\"jid\":\"l2\"}"]`, "pushes nothing with an ack"},
		"no array":           {nil, `"x"`, "expected an array of jobs"},
		"no job":             {nil, `["{\"args\":[]}"]`, "no queue or no class"},
	} {
		t.Run(name, func(t *testing.T) {
			rdb := testkit.Redis(t)
			var r troupe.Registry
			troupe.HandleClass(&r, "Link", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error {
				t.Error("it was run")
				return nil
			}))
			k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Capsules: []actors.Capsule{{Fetch: c.fetch}}})
			rdb.LPush(ctx, "queue:default", `{"class":"Link","args":[1],"jid":"l1","queue":"default","t_next":`+c.next+`}`)
			k.Await("it is dead", func() bool { return rdb.ZCard(ctx, "dead").Val() == 1 })
			if dead := rdb.ZRange(ctx, "dead", 0, -1).Val()[0]; !strings.Contains(dead, c.why) {
				t.Errorf("the dead job: %s", dead)
			}
		})
	}
}

type spread struct {
	Items int `arg:"0"`
}

func (spread) Class() string { return "Spread" }

// Each item of an iterable job that is done pushes once, whatever interrupts the runs: what fails pushes when it runs
// again.
func TestItemsPushWithTheirCursor(t *testing.T) {
	rdb := testkit.Redis(t)
	var r troupe.Registry
	var runs atomic.Int64
	const items = 1500
	troupe.HandleIterable(&r,
		func(_ context.Context, job *troupe.Job[spread], cursor *int, yield func(int, int) bool) error {
			runs.Add(1)
			return troupe.YieldSlice(slices.Collect(func(yield func(int) bool) {
				for i := range job.Args.Items {
					if !yield(i) {
						return
					}
				}
			}), cursor, yield)
		},
		func(ctx context.Context, _ *troupe.Job[spread], item int) error {
			if _, err := client.Within(ctx).PushClass(ctx, "Child", []any{item}, client.Queue("low")); err != nil {
				return err
			}
			switch n := runs.Load(); {
			case item == 100 && n == 1:
				return troupe.RetryIn(0, errors.New("once more"))
			case item == 200 && n == 2:
				return troupe.ErrInterrupted
			case item == 300 && n == 3:
				panic("no")
			}
			return nil
		}, troupe.IterableOptions[spread]{Options: troupe.Options{RetryIn: func(int, error, *troupe.Payload) troupe.Delay { return troupe.Delay(time.Millisecond) }}})
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r})
	if _, err := client.New(rdb).Push(ctx, spread{items}); err != nil {
		t.Fatal(err)
	}
	k.Await("all items have run", func() bool { return rdb.LLen(ctx, "queue:low").Val() >= items && k.Settled() })
	seen := map[string]int{}
	for _, raw := range rdb.LRange(ctx, "queue:low", 0, -1).Val() {
		_, rest, _ := strings.Cut(raw, `"args":[`)
		arg, _, _ := strings.Cut(rest, "]")
		seen[arg]++
	}
	for i := range items {
		if n := seen[fmt.Sprint(i)]; n != 1 {
			t.Errorf("item %d has pushed %d times", i, n)
		}
	}
	harness.Equal(t, "children", rdb.LLen(ctx, "queue:low").Val(), items)
}
