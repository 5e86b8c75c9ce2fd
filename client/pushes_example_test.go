package client_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
)

// Jobs of a class without a Go type, any number of them.
func ExampleClient_PushBulkClass() {
	rdb, end := inside()
	defer end()
	jids, err := client.New(rdb).PushBulkClass(context.Background(), "Report", slices.Values([][]any{{"may", 2026}, {"june", 2026}}), client.BatchSize(500))
	fmt.Println(len(jids), err)
	// Output: 2 <nil>
}

// Jobs that a program brings as JSON, from another queue or a file, keep their fields.
func ExampleClient_PushPayload() {
	rdb, end := inside()
	defer end()
	p, err := troupe.ParsePayload([]byte(`{"class":"Report","args":["may"],"queue":"low","jid":"5f0c","retry":3}`))
	if err != nil {
		panic(err)
	}
	jid, err := client.New(rdb).PushPayload(context.Background(), p)
	fmt.Println(jid, err)
	// Output: 5f0c <nil>
}

// The options of a push: where it goes, how often it is retried, how long it may take, what it is for.
func ExampleRetry() {
	rdb, end := inside()
	defer end()
	c := client.New(rdb)
	_, err := c.PushClass(context.Background(), "Report", []any{"may"},
		client.JID("report-may"), client.Queue("low"), client.Tags("monthly"), client.Set("tenant", 42),
		client.Retry(3), client.RetryQueue("slow"), client.Backtrace(20), client.Dead(false), client.Timeout(time.Minute))
	if err != nil {
		panic(err)
	}
	p, err := troupe.ParsePayload([]byte(rdb.LIndex(context.Background(), "queue:low", 0).Val()))
	if err != nil {
		panic(err)
	}
	for _, key := range []string{"jid", "retry", "retry_queue", "dead", "tags", "tenant"} {
		value, _ := p.Get(key)
		fmt.Printf("%s %s\n", key, value)
	}
	// Output:
	// jid "report-may"
	// retry 3
	// retry_queue "slow"
	// dead false
	// tags ["monthly"]
	// tenant 42
}

// A client with a buffer accepts pushes while Redis is away. Close pushes what waits, or says what is lost.
func ExampleWithBuffer() {
	rdb, end := inside()
	defer end()
	ctx, c := context.Background(), client.New(rdb, client.WithBuffer(1000))
	_, err := c.Push(ctx, ChargeCard{AccountID: 42})
	fmt.Println(err, c.Flush(ctx), c.Close(ctx))
	// Output: <nil> <nil> <nil>
}
