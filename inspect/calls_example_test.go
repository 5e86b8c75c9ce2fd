package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/inspect"
)

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

// The jobs of a queue: one is moved, the others are deleted, and it is paused.
func ExampleQueue() {
	rdb, end := inside()
	defer end()
	ctx, c, i := context.Background(), client.New(rdb), inspect.New(rdb)
	for n := range 3 {
		if _, err := c.PushClass(ctx, "Report", []any{n}); err != nil {
			panic(err)
		}
	}
	q := i.Queue("default")
	for job, err := range q.OldestFirst(ctx) {
		if err != nil {
			panic(err)
		}
		if string(job.Payload.Args()) == "[1]" {
			outcome, err := job.Move(ctx, i.Queue("low"))
			fmt.Println("move:", outcome, err)
		}
	}
	if err := q.SetPaused(ctx, true); err != nil {
		panic(err)
	}
	s, err := q.Summary(ctx)
	fmt.Println(s.Size, "wait, paused:", s.Paused, err)
	n, err := q.Clear(ctx)
	fmt.Println(n, "deleted", err)
	// Output:
	// move: done <nil>
	// 2 wait, paused: true <nil>
	// 2 deleted <nil>
}

// Processes of Ruby and of troupe, and what they run.
func ExampleInspector_Processes() {
	rdb, end := inside()
	defer end()
	ctx, i := context.Background(), inspect.New(rdb)
	processes, err := i.Processes(ctx)
	if err != nil {
		panic(err)
	}
	for _, p := range processes {
		fmt.Println(p.Identity, p.Busy, "of", p.Concurrency)
		if err := p.Quiet(ctx); err != nil {
			fmt.Println(err)
		}
	}
	works, err := i.Works(ctx)
	fmt.Println(len(processes), "processes,", len(works), "running jobs", err)
	// Output: 0 processes, 0 running jobs <nil>
}

// How far a job has come that runs, and how it has ended.
func ExampleInspector_Progress() {
	rdb, end := inside()
	defer end()
	ctx, i := context.Background(), inspect.New(rdb)
	jid, err := client.New(rdb).PushClass(ctx, "Report", []any{1})
	if err != nil {
		panic(err)
	}
	if p, err := i.Progress(ctx, jid); err == nil {
		left, known := p.Left()
		fmt.Println(p.Done, "of", p.Total, left, known)
	} else {
		fmt.Println("it does not run, or tells nothing:", errors.Is(err, inspect.ErrNotFound))
	}
	if r, err := i.Result(ctx, jid); err == nil {
		fmt.Println(r.Outcome, string(r.Value))
	} else {
		fmt.Println("it has not ended, or that is not kept:", errors.Is(err, inspect.ErrNotFound))
	}
	// Output:
	// it does not run, or tells nothing: true
	// it has not ended, or that is not kept: true
}

// Whether jobs are still to run, or run.
func ExampleInspector_Missing() {
	rdb, end := inside()
	defer end()
	ctx := context.Background()
	jid, err := client.New(rdb).PushClass(ctx, "Report", []any{1})
	if err != nil {
		panic(err)
	}
	missing, err := inspect.New(rdb).Missing(ctx, jid, "0123456789abcdef01234567")
	fmt.Println(missing, err)
	// Output: [0123456789abcdef01234567] <nil>
}

// Who holds the locks of unique jobs, and one that is freed.
func ExampleInspector_Locks() {
	rdb, end := inside()
	defer end()
	ctx, i := context.Background(), inspect.New(rdb)
	jid, err := client.New(rdb).PushClass(ctx, "Report", []any{1}, client.Unique(troupe.Unique{For: time.Hour}))
	if err != nil {
		panic(err)
	}
	for lock, err := range i.Locks(ctx) {
		if err != nil {
			panic(err)
		}
		fmt.Println(lock.Holder == jid, time.Until(lock.Ends) > 59*time.Minute)
	}
	var dup *client.DuplicateError
	if _, err := client.New(rdb).PushClass(ctx, "Report", []any{1}, client.Unique(troupe.Unique{})); errors.As(err, &dup) {
		lock, err := i.Lock(ctx, dup.Lock)
		if err != nil {
			panic(err)
		}
		outcome, err := lock.Free(ctx)
		fmt.Println("free:", outcome, err)
	}
	for job, err := range i.Queue("default").Each(ctx) {
		if err != nil {
			panic(err)
		}
		lock, err := i.LockOf(ctx, &job.JobRecord)
		fmt.Printf("held by %q %v\n", lock.Holder, err)
	}
	// Output:
	// true true
	// free: done <nil>
	// held by "" <nil>
}
