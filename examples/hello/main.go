// Command hello is the smallest daemon: it pushes a job and runs it, with a Redis server in memory.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
)

// Greet is a class of jobs. Its fields are the arguments of a job.
type Greet struct{ Name string }

// Class returns the name of the class in Redis.
func (Greet) Class() string { return "Greet" }

func main() {
	server, err := miniredis.Run() // in a real program use your own Redis
	if err != nil {
		log.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})

	var jobs troupe.Registry
	troupe.Handle(&jobs, func(ctx context.Context, job *troupe.Job[Greet]) error {
		fmt.Println("hello", job.Args.Name)
		return nil // an error is retried, with a growing delay
	})
	if _, err := client.New(rdb).Push(context.Background(), Greet{Name: "Ada"}); err != nil {
		log.Fatal(err)
	}
	os.Exit(actors.Main(actors.Config{Redis: rdb, Registry: &jobs})) // runs jobs until Ctrl-C
}
