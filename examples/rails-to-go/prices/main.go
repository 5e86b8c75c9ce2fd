// Command prices runs the jobs of PriceWorker, which the Ruby app pushes, in Go.
package main

import (
	"cmp"
	"os"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
)

func main() {
	log := zerolog.New(os.Stderr).With().Timestamp().Logger()
	options, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://localhost:6379/0"))
	if err != nil {
		log.Fatal().Err(err).Msg("REDIS_URL")
	}
	rdb := redis.NewClient(options)

	var jobs troupe.Registry
	shop := &Shop{Redis: rdb}
	troupe.Handle(&jobs, shop.Price)

	os.Exit(actors.Main(actors.Config{
		Redis:    rdb,
		Registry: &jobs,
		Logger:   log,
		Tag:      "prices in Go", // on the Busy page
		Capsules: []actors.Capsule{{Concurrency: 20, Queues: actors.Strict{"prices"}}},
	}))
}
