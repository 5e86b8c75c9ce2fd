// Command daemon is a program that pushes a job and runs it, with nothing that a daemon could do without.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
)

// Greet is a class of jobs.
type Greet struct{ Name string }

// Class is its name in Redis.
func (Greet) Class() string { return "Greet" }

func greet(_ context.Context, job *troupe.Job[Greet]) error {
	fmt.Println("hello", job.Args.Name)
	return nil
}

func run() error {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	var jobs troupe.Registry
	troupe.Handle(&jobs, greet)
	d, err := actors.New(actors.Config{Redis: rdb, Registry: &jobs})
	if err != nil {
		return err
	}
	if err := d.Start(context.Background()); err != nil {
		return err
	}
	if _, err := client.New(rdb).Push(context.Background(), Greet{Name: "Ada"}); err != nil {
		return err
	}
	<-d.Done()
	return d.Err()
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
