package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/inspect"
)

func Example() {
	mr, err := miniredis.Run() // a Redis inside this process
	if err != nil {
		panic(err)
	}
	defer mr.Close()
	rdb := redis.NewClient(&redis.Options{Addr: mr.Addr()})
	defer func() { _ = rdb.Close() }()
	ctx := context.Background()

	c := client.New(rdb)
	for n := range 3 {
		if _, err := c.PushClass(ctx, "Report", []any{n}, client.In(time.Duration(n+1)*time.Hour), client.Queue("reports")); err != nil {
			panic(err)
		}
	}

	i := inspect.New(rdb)
	for entry, err := range i.ScheduledSet.Each(ctx) {
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s%s in %v\n", entry.Payload.Class(), entry.Payload.Args(), time.Until(entry.At).Round(time.Hour))
		switch string(entry.Payload.Args()) {
		case "[2]":
			outcome, err := entry.Delete(ctx)
			fmt.Println("delete:", outcome, err)
		case "[1]":
			outcome, err := entry.AddToQueue(ctx)
			fmt.Println("add to queue:", outcome, err)
			outcome, err = entry.AddToQueue(ctx)
			fmt.Println("and once more:", outcome, err)
		}
	}
	stats, err := i.Stats(ctx)
	if err != nil {
		panic(err)
	}
	reports, err := i.Queue("reports").Summary(ctx)
	fmt.Println(stats.ScheduledSize, "scheduled,", reports.Size, "queued", err)
	_, err = i.DeadSet.FindJob(ctx, "0d6ec0d6a7e2450f8a158dc8")
	fmt.Println("not dead:", errors.Is(err, inspect.ErrNotFound))
	// Output:
	// Report[2] in 3h0m0s
	// delete: done <nil>
	// Report[1] in 2h0m0s
	// add to queue: done <nil>
	// and once more: gone <nil>
	// Report[0] in 1h0m0s
	// 1 scheduled, 1 queued <nil>
	// not dead: true
}

func ExampleJobSet_RetryAll() {
	mr, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer mr.Close()
	rdb := redis.NewClient(&redis.Options{Addr: mr.Addr()})
	defer func() { _ = rdb.Close() }()
	ctx := context.Background()
	for n := range 4 {
		raw := fmt.Sprintf(`{"class":"%s","args":[%d],"queue":"default","retry_count":0}`, []string{"Mail", "Report"}[n%2], n)
		rdb.ZAdd(ctx, "dead", redis.Z{Score: float64(n), Member: raw})
	}

	i := inspect.New(rdb)
	counts, err := i.DeadSet.RetryAll(ctx, inspect.Bulk{Where: func(e *inspect.SortedEntry) bool {
		return e.Payload.Class() == "Mail"
	}})
	fmt.Println(counts.Done, counts.Left, err)
	// Output: 2 0 <nil>
}
