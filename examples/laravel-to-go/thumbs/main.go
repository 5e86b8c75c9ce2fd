// Command thumbs runs the jobs of App\Jobs\Thumbnail, which the PHP app pushes, in Go.
package main

import (
	"cmp"
	"os"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/wire/laravel"
)

const prefix = "laravel_database_" // database.redis.options.prefix

func main() {
	log := zerolog.New(os.Stderr).With().Timestamp().Logger()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + cmp.Or(os.Getenv("REDIS_PORT"), "6379")})

	var jobs troupe.Registry
	shop := &Shop{Redis: rdb, Queue: laravel.NewClient(rdb, prefix)}
	troupe.Handle(&jobs, shop.Thumb)

	wire, err := laravel.New(laravel.Options{
		Prefix: prefix,
		Relay:  "mails", // a queue of PHP's worker: it writes the rows of failed jobs
		Cache:  &laravel.Cache{Prefix: prefix + "laravel_cache:", Database: 1},
	})
	if err != nil {
		log.Fatal().Err(err).Msg("laravel")
	}
	os.Exit(actors.Main(actors.Config{
		Redis:    rdb,
		Registry: &jobs,
		Logger:   log, DoneLevel: zerolog.InfoLevel, // a line for each job
		Capsules: []actors.Capsule{{Concurrency: 20, Wire: wire, Queues: actors.Strict{"images"}}},
	}))
}
