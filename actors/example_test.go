package actors_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/supervisor"
)

// Greet is a class of jobs for Go only: a struct without tags.
type Greet struct{ Name string }

func (Greet) Class() string { return "Greet" }

// inside is a Redis inside this process.
func inside() (rdb *redis.Client, end func()) {
	mr, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	rdb = redis.NewClient(&redis.Options{Addr: mr.Addr()})
	return rdb, func() {
		_ = rdb.Close()
		mr.Close()
	}
}

// A daemon inside a program: it runs until the context ends, and stops in good order. A whole main
// function is actors.Main.
func ExampleRun() {
	rdb, end := inside()
	defer end()
	ctx, stop := context.WithCancel(context.Background())
	var jobs troupe.Registry
	troupe.Handle(&jobs, func(_ context.Context, job *troupe.Job[Greet]) error {
		fmt.Println("hello", job.Args.Name)
		stop()
		return nil
	})
	if _, err := client.New(rdb).Push(ctx, Greet{Name: "Ada"}); err != nil {
		panic(err)
	}
	fmt.Println(actors.Run(ctx, actors.Config{Redis: rdb, Registry: &jobs}))
	// Output:
	// hello Ada
	// <nil>
}

// A daemon that a program starts, hears of, asks, changes and stops.
func ExampleNew() {
	rdb, end := inside()
	defer end()
	ctx, done := context.Background(), make(chan string, 1)
	var jobs troupe.Registry
	troupe.Handle(&jobs, func(context.Context, *troupe.Job[Greet]) error { return nil })
	d, err := actors.New(actors.Config{Redis: rdb, Registry: &jobs, Embedded: true})
	if err != nil {
		panic(err)
	}
	d.Subscribe(func(e event.Event) {
		if e, ok := e.(event.JobDone); ok {
			done <- e.Job.Class
		}
	})
	if err := d.Start(ctx); err != nil {
		panic(err)
	}
	if _, err := client.New(rdb).Push(ctx, Greet{Name: "Ada"}); err != nil {
		panic(err)
	}
	fmt.Println(<-done, "is done")
	fmt.Println("processor-0 is", d.Tree().Find("launcher/default/processor-0").Role)
	if err := d.Configure(ctx, actors.Capsule{Concurrency: 2}); err != nil {
		panic(err)
	}
	fmt.Println(d.ConfigureLimits(ctx, troupe.Limit{Name: "api", AtOnce: 9}))
	stopCtx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, err = d.Stop(stopCtx)
	fmt.Println("stopped:", err, d.Stats().Processed)
	// Output:
	// Greet is done
	// processor-0 is processor
	// configure: limit "api" is not of this daemon: that takes a restart
	// stopped: <nil> 1
}

// Capsules: queues with processors, and a strategy, of their own. This one takes from a queue in which Ruby's jobs
// are, too.
func ExampleCapsule() {
	var jobs troupe.Registry
	troupe.Handle(&jobs, func(context.Context, *troupe.Job[Greet]) error { return nil })
	rdb, end := inside()
	defer end()
	cfg := actors.Config{
		Redis: rdb, Registry: &jobs, Logger: actors.Slog(slog.New(slog.NewJSONHandler(os.Stderr, nil))),
		Capsules: []actors.Capsule{
			{Queues: actors.Weighted{"critical": 3, "default": 1}, Unknown: actors.Unknown{Queue: "default_ruby"}},
			{Name: "ledger", Concurrency: 1, Queues: actors.Strict{"ledger"}, Strategy: supervisor.AllForOne(supervisor.Spec{Intensity: 3})},
		},
	}
	fmt.Println(cfg.Validate())
	// Output: <nil>
}
