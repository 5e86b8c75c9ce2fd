package client_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
)

// A handler pushes with its ack: the welcome enters Redis if the charge is done, or not at all. Without a job there
// is no ack.
func ExampleWithin() {
	charge := func(ctx context.Context, j *troupe.Job[ChargeCard]) error {
		_, err := client.Within(ctx).Push(ctx, Welcome{Name: "Ada"})
		return err
	}
	var jobs troupe.Registry
	troupe.Handle(&jobs, charge)

	fmt.Println(charge(context.Background(), &troupe.Job[ChargeCard]{}))
	// Output:
	// push Welcome: client.Within: got a context that belongs to no job, want that of a handler
}

// Of a chain only the first job is in its queue. The others are in its field t_next.
func ExampleClient_PushChain() {
	mr, err := miniredis.Run() // a Redis inside this process
	if err != nil {
		panic(err)
	}
	defer mr.Close()
	rdb := redis.NewClient(&redis.Options{Addr: mr.Addr()})
	defer func() { _ = rdb.Close() }()
	ctx := context.Background()

	jids, err := client.New(rdb).PushChain(ctx,
		client.Job(ChargeCard{AccountID: 42, Cents: 1999, Currency: "EUR"}),
		client.Job(Welcome{Name: "Ada"}),
	)
	if err != nil {
		panic(err)
	}
	first := rdb.LRange(ctx, "queue:critical", 0, -1).Val()
	fmt.Println(len(jids), len(first), strings.Contains(first[0], `\"class\":\"Welcome\"`))
	// Output:
	// 2 1 true
}
