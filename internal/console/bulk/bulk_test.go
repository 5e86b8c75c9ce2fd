package bulk

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/memredis"
	"github.com/troupehq/troupe/internal/test/redistest"
)

func fill(t *testing.T, rdb *redis.Client, key string, n int) {
	t.Helper()
	for i := range n {
		job := fmt.Sprintf(`{"class":"C%d","args":[%d],"queue":"default","jid":"j%d"}`, i%2, i, i)
		if err := rdb.ZAdd(t.Context(), key, redis.Z{Score: float64(1795000000 + i), Member: job}).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

func task(t *testing.T, i *inspect.Inspector, action, set string) *Task {
	t.Helper()
	a, ok := ActionOf(action)
	if !ok {
		t.Fatal("no action", action)
	}
	return &Task{Action: a, Set: SetOf(i, set)}
}

func TestEachEntryIsCounted(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx, i := t.Context(), inspect.New(rdb)
	fill(t, rdb, "dead", 10)
	rdb.ZAdd(ctx, "dead", redis.Z{Score: 1795000100, Member: "junk"})
	b := task(t, i, "retry", "dead")
	b.Filter = Filter{Class: "C1"}
	if total, some, err := b.Preview(ctx, 2); err != nil || total != 5 || len(some) != 2 {
		t.Fatalf("%d, %d, %v", total, len(some), err)
	}
	var told []int
	b.Limit = 3
	c, err := b.Run(ctx, func(c Counts) { told = append(told, c.Sum()) })
	if err != nil || c != (Counts{Done: 3}) || fmt.Sprint(told) != "[1 2 3]" || rdb.LLen(ctx, "queue:default").Val() != 3 {
		t.Errorf("with a limit: %+v, %v, %v", c, err, told)
	}
	all := task(t, i, "retry", "dead")
	c, err = all.Run(ctx, func(Counts) {})
	if err != nil || c.Done != 7 || c.Left != 1 || c.Fault == "" || rdb.ZCard(ctx, "dead").Val() != 1 {
		t.Errorf("all: %+v, %v", c, err)
	}
	named := task(t, i, "delete", "dead")
	named.Keys = []string{"1795000005-j5", "1795000100-"}
	if c, err = named.Run(ctx, func(Counts) {}); err != nil || c.Gone != 1 || c.Done != 1 {
		t.Errorf("by key: %+v, %v", c, err)
	}
}

// Two tasks on one set share the entries: none is acted on twice.
func TestTwoOperatorsShareASet(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx, i := t.Context(), inspect.New(rdb)
	fill(t, rdb, "retry", 500)
	sums := make(chan Counts, 2)
	for range 2 {
		go func() {
			c, err := task(t, i, "kill", "retry").Run(ctx, func(Counts) {})
			harness.Check(t, err)
			sums <- c
		}()
	}
	a, b := <-sums, <-sums
	if a.Done+b.Done != 500 || rdb.ZCard(ctx, "dead").Val() != 500 || rdb.ZCard(ctx, "retry").Val() != 0 {
		t.Errorf("%+v and %+v", a, b)
	}
}

// The rate is kept, and the end of the context ends a task between two entries.
func TestATaskIsEndedBetweenTwoEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redis.NewClient(memredis.New(t).Options())
		defer func() { _ = rdb.Close() }()
		i := inspect.New(rdb)
		fill(t, rdb, "retry", 100)
		b := task(t, i, "delete", "retry")
		b.Rate = 10
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		c, err := b.Run(ctx, func(c Counts) {
			if c.Sum() == 50 {
				cancel()
			}
		})
		if took := time.Since(began); !errors.Is(err, context.Canceled) || c.Done != 50 || took < 4900*time.Millisecond || took > 5*time.Second {
			t.Errorf("%+v after %v, %v", c, took, err)
		}
		harness.Equal(t, "are left", rdb.ZCard(t.Context(), "retry").Val(), 50)
	})
}
