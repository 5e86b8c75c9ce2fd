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

// Jobs that count together: the welcome is pushed once when both charges are done.
func ExampleClient_Batch() {
	rdb, done := embedded()
	defer done()
	ctx := context.Background()

	id, err := client.New(rdb).Batch(ctx, client.BatchOptions{Name: "charges", Success: client.Job(Welcome{Name: "Ada"})}, func(b *client.Batch) error {
		for account := range 2 {
			if _, err := b.Push(ctx, ChargeCard{AccountID: int64(account), Cents: 1999, Currency: "EUR"}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	first := rdb.LIndex(ctx, "queue:critical", -1).Val()
	fmt.Println(rdb.LLen(ctx, "queue:critical").Val(), strings.Contains(first, `"t_batch":"`+id+`:0"`))
	// Output:
	// 2 true
}

// A batch that is open gets jobs for as long as it is wanted, and ends when it is closed. Here it has no jobs, so it
// succeeds at once, and nobody adds to it any more.
func ExampleClient_GrowBatch() {
	rdb, done := embedded()
	defer done()
	ctx := context.Background()
	c := client.New(rdb)

	id, err := c.Batch(ctx, client.BatchOptions{Open: true}, func(b *client.Batch) error { return nil })
	if err != nil {
		panic(err)
	}
	push := func(b *client.Batch) error {
		_, err := b.Push(ctx, Welcome{Name: "Ada"})
		return err
	}
	fmt.Println(c.CloseBatch(ctx, id))
	err = c.GrowBatch(ctx, id, push)
	fmt.Println(strings.ReplaceAll(err.Error(), id, "ID"))
	// Output:
	// <nil>
	// batch ID: after 0 jobs: batch: got "ID", which has succeeded, want one that is there and has not succeeded
}

// The jobs of a batch that wait are dropped when their turn comes.
func ExampleClient_CancelBatch() {
	rdb, done := embedded()
	defer done()
	ctx := context.Background()
	c := client.New(rdb)

	var id string
	_, err := c.Batch(ctx, client.BatchOptions{}, func(b *client.Batch) error {
		id = b.ID()
		_, err := b.Push(ctx, Welcome{Name: "Ada"})
		return err
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(c.CancelBatch(ctx, id))
	// Output:
	// <nil>
}

// A job closes its batch, which was open: it succeeds when all its jobs are done.
func ExampleClient_CloseBatch() {
	walk := func(ctx context.Context, j *troupe.Job[Welcome]) error {
		info, _ := troupe.JobInfoFrom(ctx)
		return client.FromContext(ctx).CloseBatch(ctx, info.Batch)
	}
	fmt.Println(walk(context.Background(), &troupe.Job[Welcome]{}))
	// Output:
	// close batch : client.FromContext: got a context that belongs to no job, want that of a handler, or one of client.NewContext
}

func embedded() (*redis.Client, func()) {
	mr, err := miniredis.Run() // a Redis inside this process
	if err != nil {
		panic(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: mr.Addr()})
	return rdb, func() {
		_ = rdb.Close()
		mr.Close()
	}
}
