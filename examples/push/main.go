// Command push enqueues jobs for any Sidekiq, Ruby or Go. It links neither the
// daemon nor the actor library.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
)

// ChargeCard has the positional arguments of the worker.
type ChargeCard struct {
	AccountID int64  `arg:"0"`
	Cents     int64  `arg:"1"`
	Currency  string `arg:"2"`
}

// Class is the worker's name on the wire.
func (ChargeCard) Class() string { return "Billing::ChargeCard" }

// Defaults are the options of all its jobs, as sidekiq_options sets them in Ruby.
func (ChargeCard) Defaults() troupe.Options {
	return troupe.Options{Queue: "critical", Retries: troupe.Times(5)}
}

func run(ctx context.Context, rdb redis.UniversalClient) error {
	c := client.New(rdb)

	jid, err := c.Push(ctx, ChargeCard{AccountID: 42, Cents: 1999, Currency: "EUR"})
	if err != nil {
		return err
	}
	fmt.Println(jid)

	// in ten minutes; client.At takes a time. An option counts before the type's Defaults
	if _, err := c.Push(ctx, ChargeCard{AccountID: 42, Cents: 500, Currency: "EUR"}, client.In(10*time.Minute), client.Queue("default")); err != nil {
		return err
	}

	// any number of jobs, 1,000 a round trip
	overdue := []ChargeCard{
		{AccountID: 1, Cents: 100, Currency: "EUR"},
		{AccountID: 2, Cents: 200, Currency: "EUR"},
	}
	_, err = client.PushBulk(ctx, c, slices.Values(overdue))
	return err
}

func main() {
	options, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://localhost:6379/0"))
	if err == nil {
		err = run(context.Background(), redis.NewClient(options))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
