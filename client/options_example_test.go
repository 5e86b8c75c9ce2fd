package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
)

// One job of its kind at a time: a push is refused while the first one waits or runs.
func ExampleUnique() {
	rdb, end := inside()
	defer end()
	ctx, c := context.Background(), client.New(rdb)
	once := client.Unique(troupe.Unique{For: time.Hour})
	first, err := c.PushClass(ctx, "Report", []any{"may"}, once)
	fmt.Println(err)
	_, err = c.PushClass(ctx, "Report", []any{"may"}, once)
	if dup, ok := errors.AsType[*client.DuplicateError](err); ok {
		fmt.Println("held by the first:", dup.Holder == first)
	}
	_, err = c.PushClass(ctx, "Report", []any{"may"}, once, client.NotUnique())
	fmt.Println(err)
	// Output:
	// <nil>
	// held by the first: true
	// <nil>
}

// One job of many pushes: it runs a second after the last, with its arguments, and a minute after the first at most.
func ExampleDebounce() {
	rdb, end := inside()
	defer end()
	ctx, c := context.Background(), client.New(rdb)
	for n := range 3 {
		if _, err := c.PushClass(ctx, "Index", []any{n}, client.Debounce("shop-7", time.Second, time.Minute)); err != nil {
			panic(err)
		}
	}
	fmt.Println(rdb.ZCard(ctx, "schedule").Val())
	// Output: 1
}

// The last argument is sealed in Redis; who has the keys opens it.
func ExampleEncrypt() {
	rdb, end := inside()
	defer end()
	ctx := context.Background()
	c := client.New(rdb, client.WithEncryption(troupe.Encryption{Keys: map[int][]byte{1: bytes.Repeat([]byte{7}, 32)}}))
	if _, err := c.PushClass(ctx, "Mail", []any{"ada@example.com"}, client.Encrypt(true)); err != nil {
		panic(err)
	}
	raw := []byte(rdb.RPop(ctx, "queue:default").Val())
	p, err := troupe.ParsePayload(raw)
	if err != nil {
		panic(err)
	}
	fmt.Println(bytes.Contains(raw, []byte("ada@")), c.Open(p), string(p.Args()))
	// Output: false <nil> ["ada@example.com"]
}

// A job that is retried for a day, and dropped if it has not begun within an hour.
func ExampleDropExpired() {
	rdb, end := inside()
	defer end()
	c := client.New(rdb, client.WithTimestamps(troupe.TimestampsFloat))
	fmt.Println(c.Err()) // what is wrong with what New got
	_, err := c.PushClass(context.Background(), "Digest", nil, client.RetryFor(24*time.Hour), client.ExpireAt(time.Now().Add(time.Hour)), client.DropExpired())
	fmt.Println(err)
	// Output:
	// <nil>
	// <nil>
}

// A handler that pushes gets its client from its context. A test gives it one.
func ExampleNewContext() {
	rdb, end := inside()
	defer end()
	handle := func(ctx context.Context) error {
		_, err := client.FromContext(ctx).PushClass(ctx, "Report", nil)
		return err
	}
	fmt.Println(handle(client.NewContext(context.Background(), client.New(rdb))), rdb.LLen(context.Background(), "queue:default").Val())
	// Output: <nil> 1
}

// An iterable job that runs, waits or is to be retried is asked to end.
func ExampleClient_CancelIterable() {
	rdb, end := inside()
	defer end()
	ctx, c := context.Background(), client.New(rdb)
	jid, err := c.PushClass(ctx, "Backfill", nil)
	if err != nil {
		panic(err)
	}
	at, err := c.CancelIterable(ctx, jid)
	fmt.Println(time.Since(at) < time.Hour, err)
	// Output: true <nil>
}
