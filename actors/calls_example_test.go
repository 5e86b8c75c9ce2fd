package actors_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
)

// A whole main function. Signals, systemd and the exit code are its affair.
func ExampleMain() { //nolint:testableexamples // it runs until a signal
	rdb, end := inside()
	defer end()
	var jobs troupe.Registry
	troupe.Handle(&jobs, func(context.Context, *troupe.Job[Greet]) error { return nil })
	os.Exit(actors.Main(actors.Config{Redis: rdb, Registry: &jobs, Logger: zerolog.New(os.Stderr)}))
}

// The same for several Redis servers in one process.
func ExampleMainShards() { //nolint:testableexamples // it runs until a signal
	one, end := inside()
	defer end()
	two, end2 := inside()
	defer end2()
	var jobs troupe.Registry
	troupe.Handle(&jobs, func(context.Context, *troupe.Job[Greet]) error { return nil })
	os.Exit(actors.MainShards(context.Background(),
		actors.Shard{Name: "one", Config: actors.Config{Redis: one, Registry: &jobs}},
		actors.Shard{Name: "two", Config: actors.Config{Redis: two, Registry: &jobs}},
	))
}

// What a running daemon can be asked and told: how it is, to end a job, to fetch no more. The report of its stop
// says what became of its jobs.
func ExampleDaemon() {
	rdb, end := inside()
	defer end()
	ctx, began := context.Background(), make(chan string, 1)
	var jobs troupe.Registry
	troupe.Handle(&jobs, func(ctx context.Context, job *troupe.Job[Greet]) error {
		began <- job.JID
		<-ctx.Done()
		return troupe.Discard(context.Cause(ctx))
	})
	log, flush := actors.GuardLog(zerolog.New(os.Stderr).Level(zerolog.FatalLevel)) // a slow reader of the log delays nobody
	defer flush()
	d, err := actors.New(actors.Config{Redis: rdb, Registry: &jobs, Logger: log, Embedded: true})
	if err != nil {
		panic(err)
	}
	if err := d.Start(ctx); err != nil {
		panic(err)
	}
	if _, err := client.New(rdb).Push(ctx, Greet{Name: "Ada"}); err != nil {
		panic(err)
	}
	jid := <-began
	fmt.Println(d.Health().Phase, d.Health().Live.OK(), d.Stats().Busy, d.Identity() != "")
	fmt.Println("cancelled:", d.Cancel(jid), "another:", d.Cancel("nobody"))
	d.Quiet()
	stopCtx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, err := d.Stop(stopCtx); err != nil {
		panic(err)
	}
	<-d.Done()
	fmt.Println(d.Health().Phase, len(d.Report().Requeued), d.Err())
	first := d.Metrics().Classes[0]
	fmt.Println(first.Class, first.Runs["error"])
	// Output:
	// running true 1 true
	// cancelled: true another: false
	// ended 0 <nil>
	// Greet 1
}

// Several daemons inside a program, with one stop.
func ExampleNewGroup() {
	one, end := inside()
	defer end()
	two, end2 := inside()
	defer end2()
	var jobs troupe.Registry
	troupe.Handle(&jobs, func(context.Context, *troupe.Job[Greet]) error { return errors.New("never run") })
	ctx := context.Background()
	g, err := actors.NewGroup(
		actors.Shard{Name: "one", Config: actors.Config{Redis: one, Registry: &jobs, Embedded: true}},
		actors.Shard{Name: "two", Config: actors.Config{Redis: two, Registry: &jobs, Embedded: true}},
	)
	if err != nil {
		panic(err)
	}
	if err := g.Start(ctx); err != nil {
		panic(err)
	}
	fmt.Println(len(g.Daemons()), g.Daemons()[0].Health().Phase)
	g.Quiet()
	reports, err := g.Stop(ctx)
	<-g.Done()
	fmt.Println(len(reports), err, g.Err())
	// Output:
	// 2 running
	// 2 <nil> <nil>
}
