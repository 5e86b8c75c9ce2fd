package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
)

// inside is a Redis inside this process.
func inside() (rdb *redis.Client, end func()) {
	mr, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	rdb = redis.NewClient(&redis.Options{Addr: mr.Addr()})
	return rdb, func() {
		_ = rdb.Close()
		mr.Close()
	}
}

// One job: now, later, at a time, of a class without a Go type, and as JSON.
func ExampleClient_Push() {
	rdb, end := inside()
	defer end()
	ctx, c := context.Background(), client.New(rdb)
	_, err1 := c.Push(ctx, ChargeCard{AccountID: 42})
	_, err2 := c.Push(ctx, ChargeCard{AccountID: 42}, client.In(time.Hour), client.Retry(3), client.Tags("trial"))
	_, err3 := c.PushClass(ctx, "Report", []any{"may", 2026}, client.Queue("low"))
	_, err4 := c.PushJSON(ctx, "Report", []byte(`["june",2026]`), client.At(time.Now().AddDate(0, 1, 0)))
	fmt.Println(rdb.LLen(ctx, "queue:critical").Val(), rdb.LLen(ctx, "queue:low").Val(), rdb.ZCard(ctx, "schedule").Val(), errors.Join(err1, err2, err3, err4))
	// Output: 1 1 2 <nil>
}

// Any number of jobs, 1,000 a round trip. PushBulk is a function, not a method: it takes the client.
func ExamplePushBulk() {
	rdb, end := inside()
	defer end()
	overdue := []ChargeCard{{AccountID: 7, Cents: 100}, {AccountID: 8, Cents: 250}}
	jids, err := client.PushBulk(context.Background(), client.New(rdb), slices.Values(overdue), client.Spread(time.Hour))
	fmt.Println(len(jids), err)
	// Output: 2 <nil>
}

// Client middleware stops duplicates, and the push tells which of the jobs, and why.
func ExampleStoppedError() {
	rdb, end := inside()
	defer end()
	once := func(next client.PushFunc) client.PushFunc {
		return func(ctx context.Context, p *troupe.Payload) error {
			if set, err := rdb.SetNX(ctx, "once:"+string(p.Args()), p.JID(), time.Hour).Result(); err != nil {
				return err
			} else if !set {
				return fmt.Errorf("pushed within the last hour: %w", client.ErrStopped)
			}
			return next(ctx, p)
		}
	}
	c := client.New(rdb, client.WithMiddleware(once))
	jids, err := c.PushMany(context.Background(), client.Job(ChargeCard{AccountID: 1}), client.Job(ChargeCard{AccountID: 1}), client.Job(ChargeCard{AccountID: 2}))
	if stopped, ok := errors.AsType[*client.StoppedError](err); ok {
		fmt.Println(len(jids), "jobs, of which the second was not made:", stopped.Jobs[1])
	}
	// Output: 3 jobs, of which the second was not made: pushed within the last hour: push stopped by middleware
}

// What every push of a program has in common.
func ExampleWithDefaults() {
	rdb, end := inside()
	defer end()
	c := client.New(rdb, client.WithDefaults(client.Queue("imports"), client.Retry(2)))
	_, err := c.PushClass(context.Background(), "Import", []any{1})
	fmt.Println(rdb.LLen(context.Background(), "queue:imports").Val(), err)
	// Output: 1 <nil>
}

// Several Redis servers, each with queues of its own.
func ExampleNewSharded() {
	one, end := inside()
	defer end()
	two, end2 := inside()
	defer end2()
	c, err := client.NewSharded([]client.Shard{{Name: "one", Redis: one, Queues: []string{"critical"}}, {Name: "two", Redis: two, Queues: []string{"low"}}})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	_, err1 := c.Push(ctx, ChargeCard{AccountID: 42})
	_, err2 := c.PushClass(ctx, "Report", nil, client.Queue("low"))
	fmt.Println(one.LLen(ctx, "queue:critical").Val(), two.LLen(ctx, "queue:low").Val(), errors.Join(err1, err2))
	// Output: 1 1 <nil>
}
