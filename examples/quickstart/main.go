// Command quickstart is a whole worker daemon: it runs the jobs that a Rails app
// pushes with Billing::ChargeCard.perform_async(42, 1999, "EUR").
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
)

// ChargeCard has the positional arguments of the Ruby worker's perform method.
type ChargeCard struct {
	AccountID int64  `arg:"0"`
	Cents     int64  `arg:"1"`
	Currency  string `arg:"2"`
}

// Class is the worker's name in Ruby.
func (ChargeCard) Class() string { return "Billing::ChargeCard" }

// Defaults are the options of all its jobs, as sidekiq_options sets them in Ruby.
func (ChargeCard) Defaults() troupe.Options {
	return troupe.Options{Queue: "charges", Retries: troupe.Times(5)}
}

var errDeclined = errors.New("card declined")

func charge(ctx context.Context, job *troupe.Job[ChargeCard]) error {
	if job.Args.Cents <= 0 {
		return troupe.Discard(errDeclined) // do not retry; see also Kill, RetryIn and Park
	}
	fmt.Println("charged", job.Args.AccountID, job.Args.Cents, job.Args.Currency)
	return nil
}

func main() {
	options, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://localhost:6379/0"))
	if err != nil {
		log.Fatal(err)
	}
	var jobs troupe.Registry
	troupe.Handle(&jobs, charge, troupe.Timeout(time.Minute))

	os.Exit(actors.Main(actors.Config{
		Redis:    redis.NewClient(options),
		Registry: &jobs,
		Queues:   actors.Strict{"charges"},
		Logger:   zerolog.New(os.Stderr).With().Timestamp().Logger(),
	}))
}
