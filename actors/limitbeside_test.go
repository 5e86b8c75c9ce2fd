package actors_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// This file is about limits beside what else holds a job up or ends it: docs/limits.md has the table.

// beside has a class C whose jobs run one at a time, until they are let go. What they return is the error of the first word of
// their argument.
type beside struct {
	t   *testing.T
	rdb *redis.Client
	cfg actors.Config
	k   *testkit.Kit
	c   *client.Client

	mu        sync.Mutex
	ran       []string // jids, in the order of their starts
	now, most int
	gate      chan struct{}
}

// besides runs a test with a daemon in virtual time.
func besides(t *testing.T, options troupe.Options, test func(t *testing.T, b *beside)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &beside{t: t, rdb: testkit.NewMemory(t).Client, gate: make(chan struct{})}
		b.c = client.New(b.rdb)
		options.Limits = []troupe.Limit{{Name: "one", AtOnce: 1}}
		var r troupe.Registry
		troupe.HandleClass(&r, "C", troupe.HandlerFunc(b.perform), options)
		b.cfg = actors.Config{Redis: b.rdb, Registry: &r, Concurrency: 3, Timeout: time.Second}
		b.k = testkit.Start(t, b.cfg)
		test(t, b)
		b.mu.Lock()
		defer b.mu.Unlock()
		harness.Equal(t, "most at once", b.most, 1)
		harness.Equal(t, "held at the end", len(b.rdb.Keys(ctx, "troupe:held*").Val()), 0)
		harness.Equal(t, "slots at the end", len(slotsOf(b.rdb, "one")), 0)
	})
}

func (b *beside) perform(ctx context.Context, p *troupe.Payload) error {
	b.mu.Lock()
	b.ran = append(b.ran, p.JID())
	b.now++
	b.most = max(b.most, b.now)
	gate := b.gate
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.now--
		b.mu.Unlock()
	}()
	select {
	case <-gate:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// push pushes a job, and waits until it runs or is held.
func (b *beside) push(opts ...client.Option) string {
	b.t.Helper()
	jid := harness.Must(b.c.PushClass(ctx, "C", []any{1}, opts...))(b.t)
	b.k.Await("it runs, or is held", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return slices.Contains(b.ran, jid) || slices.Contains(b.held(), jid)
	})
	return jid
}

// held are the jids of the held jobs, the next first.
func (b *beside) held() (jids []string) {
	for _, member := range b.rdb.ZRange(ctx, "troupe:held:one", 0, -1).Val() {
		_, text, _ := strings.Cut(member, "\n")
		jids = append(jids, harness.Must(troupe.ParsePayload([]byte(text)))(b.t).JID())
	}
	return jids
}

// letGo ends what runs, and all that runs later.
func (b *beside) letGo() {
	b.mu.Lock()
	close(b.gate)
	b.mu.Unlock()
}

// one ends what runs now.
func (b *beside) one() {
	b.mu.Lock()
	close(b.gate)
	b.gate = make(chan struct{})
	b.mu.Unlock()
}

func (b *beside) hasRun(jids ...string) func() bool {
	return func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return slices.Equal(b.ran, jids) && b.now == 0
	}
}

// done waits until these have run, in this order, and stops the daemon.
func (b *beside) done(jids ...string) {
	b.t.Helper()
	if len(jids) > 0 {
		b.k.Await("they have run in their order", b.hasRun(jids...))
	}
	b.k.Await("all is settled", b.k.Settled)
	b.k.Stop()
}

// A held job whose queue is paused goes back to it when its turn comes, takes no slot, and keeps nobody up.
func TestAHeldJobOfAPausedQueue(t *testing.T) {
	besides(t, troupe.Options{}, func(t *testing.T, b *beside) {
		first, second := b.push(), b.push()
		harness.EqualList(t, "held", b.held(), []string{second})
		harness.OK(t, b.rdb.SAdd(ctx, "paused", "default").Err())
		time.Sleep(5 * time.Second) // a pause is seen within 2.5 s
		b.one()
		b.k.Await("it is in its queue", func() bool { return b.rdb.LLen(ctx, "queue:default").Val() == 1 })
		time.Sleep(2 * time.Minute)
		harness.Equal(t, "slots", len(slotsOf(b.rdb, "one")), 0)
		harness.OK(t, b.rdb.SRem(ctx, "paused", "default").Err())
		b.letGo()
		b.done(first, second)
	})
}

// A quiet process lets held jobs in as its own end. They wait in their queue for another process, which keeps the limit.
func TestQuietLetsHeldJobsIn(t *testing.T) {
	besides(t, troupe.Options{}, func(t *testing.T, b *beside) {
		first, second, third := b.push(), b.push(), b.push()
		b.k.Daemon.Quiet()
		b.one()
		b.k.Await("one is let in", func() bool { return b.rdb.LLen(ctx, "queue:default").Val() == 1 })
		harness.EqualList(t, "held", b.held(), []string{third})
		harness.EqualList(t, "slots", slotsOf(b.rdb, "one"), []string{second})
		time.Sleep(3 * time.Minute) // nobody takes it, so its slot ends
		harness.EqualList(t, "held", b.held(), []string{third})
		b.k.Stop()
		b.letGo()
		b.k = testkit.Start(t, b.cfg)
		b.k.Await("all have run", func() bool { return len(b.rdb.Keys(ctx, "troupe:held*").Val()) == 0 && b.k.Stats().Processed == 2 })
		if b.done(); b.ran[0] != first || len(b.ran) != 3 || !slices.Contains(b.ran, second) { // the two others in any order: the second has lost its slot
			t.Errorf("ran %q, expected %q", b.ran, []string{first, second, third})
		}
	})
}

// A job that was in progress at deaths and is held goes back to the suspects when it is let in, and runs as one.
func TestAHeldSuspect(t *testing.T) {
	besides(t, troupe.Options{}, func(t *testing.T, b *beside) {
		harness.OK(t, b.rdb.HSet(ctx, "troupe:limits", "one", "0 pinned 1").Err())
		recoveredBefore(t, b.rdb, "s", 2)
		harness.OK(t, b.rdb.LPush(ctx, "queue:default.suspects", job("C", "s", "[]")).Err())
		b.k.Await("it is held", func() bool { return slices.Equal(b.held(), []string{"s"}) })
		list, _, _ := strings.Cut(b.rdb.ZRange(ctx, "troupe:held:one", 0, 0).Val()[0], "\n")
		if !strings.Contains(list, `["queue:default.suspects",`) {
			t.Errorf("it goes back to %s", list)
		}
		harness.OK(t, b.rdb.HSet(ctx, "troupe:limits", "one", "1").Err())
		b.letGo()
		b.done("s")
		harness.Equal(t, "it is no suspect any more", b.rdb.Exists(ctx, "troupe:recovered").Val(), int64(0))
	})
}

// A unique job keeps its lock while it is held, for For from its push on. After that the same may be pushed again.
func TestAHeldUniqueJob(t *testing.T) {
	besides(t, troupe.Options{}, func(t *testing.T, b *beside) {
		first := b.push()
		unique := client.Unique(troupe.Unique{For: 10 * time.Minute})
		second := b.push(unique)
		time.Sleep(9 * time.Minute)
		if _, err := b.c.PushClass(ctx, "C", []any{1}, unique); err == nil {
			t.Error("the same was pushed again while it is held")
		}
		time.Sleep(2 * time.Minute)
		third := b.push(unique)
		harness.EqualList(t, "held", b.held(), []string{second, third})
		b.letGo()
		b.done(first, second, third)
		harness.Equal(t, "locks", len(b.rdb.Keys(ctx, "troupe:lock:*").Val()), 0)
	})
}

// A scheduled job asks when it is due, and its age counts from then.
func TestAScheduledJobIsHeldWhenItIsDue(t *testing.T) {
	besides(t, troupe.Options{}, func(t *testing.T, b *beside) {
		later := harness.Must(b.c.PushClass(ctx, "C", []any{1}, client.In(time.Minute)))(t)
		first, second := b.push(), b.push()
		time.Sleep(2 * time.Minute)
		harness.EqualList(t, "held", b.held(), []string{second, later})
		third := b.push()
		b.letGo()
		b.done(first, second, later, third)
	})
}

// Each job of a chain asks for itself, when the one before is done.
func TestAChainUnderALimit(t *testing.T) {
	besides(t, troupe.Options{}, func(t *testing.T, b *beside) {
		first := b.push()
		chain := harness.Must(b.c.PushChain(ctx, client.Job(chained{}), client.Job(chained{})))(t)
		b.k.Await("its first is held", func() bool { return slices.Equal(b.held(), chain[:1]) })
		other := b.push()
		b.letGo()
		b.done(first, chain[0], other, chain[1])
	})
}

type chained struct{}

func (chained) Class() string { return "C" }

// A job that has expired while it was held is not run, and its slot is the next one's at once.
func TestAHeldJobExpires(t *testing.T) {
	for drop, set := range map[bool]string{false: "dead", true: "none"} {
		besides(t, troupe.Options{ExpireAfter: time.Minute, DropExpired: drop}, func(t *testing.T, b *beside) {
			first := b.push()
			for range 5 {
				b.push()
			}
			time.Sleep(2 * time.Minute)
			last := b.push()
			began := time.Now()
			b.letGo()
			b.done(first, last)
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("set %s: the next one started after %v", set, took)
			}
			harness.Equal(t, "set "+set, b.rdb.ZCard(ctx, set).Val(), map[bool]int64{false: 5, true: 0}[drop])
		})
	}
}

// A running job that is cancelled frees its slot as it ends, and asks again for its retry.
func TestACancelledJobFreesItsSlot(t *testing.T) {
	besides(t, troupe.Options{}, func(t *testing.T, b *beside) {
		first, second := b.push(), b.push()
		harness.Equal(t, "cancelled", b.k.Daemon.Cancel(first), true)
		b.k.Await("the second runs", func() bool { return fmt.Sprint(slotsOf(b.rdb, "one")) == fmt.Sprint([]string{second}) })
		harness.Equal(t, "to be retried", b.rdb.ZCard(ctx, "retry").Val(), int64(1))
		time.Sleep(5 * time.Minute)
		harness.EqualList(t, "held", b.held(), []string{first})
		b.letGo()
		b.done(first, second, first)
	})
}

// An iterable job that is interrupted lets the next one start, and goes on from its cursor behind it.
func TestAnInterruptedJobEndsItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		var mu sync.Mutex
		var order []string
		now, most := 0, 0
		w := &walker{each: func(_ context.Context, jid string, _ int) error {
			mu.Lock()
			if len(order) == 0 || order[len(order)-1] != jid {
				order = append(order, jid)
			}
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(400 * time.Millisecond)
			mu.Lock()
			now--
			mu.Unlock()
			return nil
		}}
		w.opts.Limits = []troupe.Limit{{Name: "one", AtOnce: 1}}
		k := testkit.Start(t, actors.Config{Redis: m.Client, Registry: w.registry(), Concurrency: 2, MaxIterationRuntime: time.Second})
		a := k.Push(walk{7})
		time.Sleep(time.Millisecond) // of virtual time: two jobs of one moment ask in any order
		b := k.Push(walk{7})
		k.Await("both are done", func() bool {
			return len(w.itemsOf(a)) == 7 && len(w.itemsOf(b)) == 7 && inProgress(t, m.Client) == 0
		})
		harness.Equal(t, "most at once", most, 1)
		harness.EqualList(t, "the order", order, []string{a, b, a, b, a, b})
		harness.Equal(t, "slots", len(slotsOf(m.Client, "one")), 0)
	})
}
