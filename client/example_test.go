package client_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
)

type ChargeCard struct {
	AccountID int64  `arg:"0"`
	Cents     int64  `arg:"1"`
	Currency  string `arg:"2"`
}

func (ChargeCard) Class() string { return "Billing::ChargeCard" }
func (ChargeCard) Defaults() troupe.Options {
	return troupe.Options{Queue: "critical", Retries: troupe.Times(5)}
}

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
	if _, err := c.Push(ctx, ChargeCard{AccountID: 42, Cents: 1999, Currency: "EUR"}); err != nil {
		panic(err)
	}
	if _, err := c.Push(ctx, ChargeCard{AccountID: 42, Cents: 500, Currency: "EUR"}, client.In(10*time.Minute)); err != nil {
		panic(err)
	}
	overdue := []ChargeCard{
		{AccountID: 7, Cents: 100, Currency: "EUR"},
		{AccountID: 8, Cents: 250, Currency: "SEK"},
	}
	jids, err := client.PushBulk(ctx, c, slices.Values(overdue), client.Queue("default")) // before the type's
	if err != nil {
		panic(err)
	}

	fmt.Println(rdb.LLen(ctx, "queue:critical").Val(), rdb.ZCard(ctx, "schedule").Val(), len(jids))
	p, err := troupe.ParsePayload([]byte(rdb.RPop(ctx, "queue:default").Val()))
	if err != nil {
		panic(err)
	}
	fmt.Println(p.Class(), string(p.Args()))
	// Output:
	// 1 1 2
	// Billing::ChargeCard [7,100,"EUR"]
}

// Every job carries the tenant of the request that pushed it, and keeps it when
// it is pushed again later by somebody else.
func ExampleWithMiddleware() {
	type tenantKey struct{}
	tenant := func(next client.PushFunc) client.PushFunc {
		return func(ctx context.Context, p *troupe.Payload) error {
			if _, set := p.Get("tenant"); !set {
				name, _ := ctx.Value(tenantKey{}).(string)
				p.SetString("tenant", name)
			}
			return next(ctx, p)
		}
	}
	mr, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer mr.Close()
	rdb := redis.NewClient(&redis.Options{Addr: mr.Addr()})
	defer func() { _ = rdb.Close() }()

	c := client.New(rdb, client.WithMiddleware(tenant))
	ctx := context.WithValue(context.Background(), tenantKey{}, "acme")
	if _, err := c.Push(ctx, ChargeCard{AccountID: 42, Cents: 1999, Currency: "EUR"}); err != nil {
		panic(err)
	}
	p, err := troupe.ParsePayload([]byte(rdb.RPop(ctx, "queue:critical").Val()))
	if err != nil {
		panic(err)
	}
	fmt.Println(p.String("tenant"))
	// Output:
	// acme true
}

// Welcome is a job of another class than ChargeCard.
type Welcome struct {
	Name string `arg:"0"`
}

func (Welcome) Class() string { return "Welcome" }

// One call pushes jobs of several classes, each with its own options. Code that takes a
// Pusher runs with a Client and with a Sharded.
func ExampleClient_PushMany() {
	mr, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer mr.Close()
	rdb := redis.NewClient(&redis.Options{Addr: mr.Addr()})
	defer func() { _ = rdb.Close() }()
	ctx := context.Background()

	var c client.Pusher = client.New(rdb)
	jids, err := c.PushMany(ctx,
		client.Job(ChargeCard{AccountID: 42, Cents: 1999, Currency: "EUR"}),
		client.Job(Welcome{Name: "Ada"}, client.In(time.Hour)))
	fmt.Println(len(jids), err, rdb.LLen(ctx, "queue:critical").Val(), rdb.ZCard(ctx, "schedule").Val())
	// Output: 2 <nil> 1 1
}

// Options of a push count before those that the type has in its Defaults.
func ExampleOption() {
	mr, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer mr.Close()
	rdb := redis.NewClient(&redis.Options{Addr: mr.Addr()})
	defer func() { _ = rdb.Close() }()
	ctx := context.Background()

	jid, err := client.New(rdb).Push(ctx, ChargeCard{AccountID: 42, Cents: 1999, Currency: "EUR"},
		client.JID("order-7"), client.Never(), client.Tags("vip"), client.ExpireAt(time.Unix(1795000000, 0)))
	if err != nil {
		panic(err)
	}
	p, err := troupe.ParsePayload([]byte(rdb.RPop(ctx, "queue:critical").Val()))
	if err != nil {
		panic(err)
	}
	retry, _ := p.Get("retry")
	expires, _ := p.Time("t_deadline")
	fmt.Println(jid, string(retry), p.Tags(), expires)
	// Output:
	// order-7 false [vip] 2026-11-18 11:06:40 +0000 UTC
}

// A handler pushes what follows through the client of its job; outside of a job there is none.
func ExampleFromContext() {
	welcome := func(ctx context.Context, j *troupe.Job[ChargeCard]) error {
		_, err := client.FromContext(ctx).Push(ctx, Welcome{Name: "Ada"}, client.In(time.Hour))
		return err
	}
	fmt.Println(welcome(context.Background(), &troupe.Job[ChargeCard]{}))
	// Output:
	// push Welcome: client.FromContext: got a context that belongs to no job, want that of a handler, or one of client.NewContext
}
