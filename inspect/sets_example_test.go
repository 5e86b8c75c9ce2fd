package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/inspect"
)

// One job of a set: it is found, put off, brought forward and, at last, deleted.
func ExampleJobSet_FindJob() {
	rdb, end := inside()
	defer end()
	ctx, i := context.Background(), inspect.New(rdb)
	jid, err := client.New(rdb).PushClass(ctx, "Report", []any{"may"}, client.In(time.Hour))
	if err != nil {
		panic(err)
	}
	entry, err := i.ScheduledSet.FindJob(ctx, jid)
	if err != nil {
		panic(err)
	}
	outcome, err := entry.Reschedule(ctx, time.Now().Add(2*time.Hour))
	fmt.Println("reschedule:", outcome, err)
	entry, err = i.ScheduledSet.FindJob(ctx, jid)
	if err != nil {
		panic(err)
	}
	outcome, err = entry.AddToQueue(ctx)
	fmt.Println("to its queue:", outcome, err)
	_, err = i.ScheduledSet.FindJob(ctx, jid)
	fmt.Println("once more:", errors.Is(err, inspect.ErrNotFound))
	// Output:
	// reschedule: done <nil>
	// to its queue: done <nil>
	// once more: true
}

// The numbers of a dashboard.
func ExampleInspector_Stats() {
	rdb, end := inside()
	defer end()
	ctx, i := context.Background(), inspect.New(rdb)
	for range 3 {
		if _, err := client.New(rdb).PushClass(ctx, "Report", nil); err != nil {
			panic(err)
		}
	}
	s, err := i.Stats(ctx)
	fmt.Println(s.Enqueued, s.RetrySize, err)
	queues, err := i.Queues(ctx)
	for _, q := range queues {
		fmt.Println(q.Name, q.Size, err)
	}
	// Output:
	// 3 0 <nil>
	// default 3 <nil>
}

// A periodic job that is saved from Go, shown, disabled and pushed by hand.
func ExampleInspector_SavePeriodic() {
	rdb, end := inside()
	defer end()
	ctx, i := context.Background(), inspect.New(rdb)
	err := i.SavePeriodic(ctx, troupe.Periodic{Name: "nightly", Cron: "0 3 * * * UTC", Class: "Report"})
	if err != nil {
		panic(err)
	}
	j, err := i.PeriodicJob(ctx, "nightly", "")
	if err != nil {
		panic(err)
	}
	for _, tick := range j.Ticks(1) {
		fmt.Println(tick.UTC().Format("15:04"))
	}
	_, pushed := j.Push(ctx)
	fmt.Println(pushed, j.Disable(ctx), rdb.LLen(ctx, "queue:default").Val())
	// Output:
	// 03:00
	// <nil> <nil> 1
}

// The dead jobs of a class are deleted; a page of what is left is shown, with the lines of its error.
func ExampleJobSet_DeleteAll() {
	rdb, end := inside()
	defer end()
	ctx, i := context.Background(), inspect.New(rdb)
	for n, job := range []string{
		`{"class":"Report","args":[],"jid":"1"}`,
		`{"class":"Mail","args":[],"jid":"2","error_class":"Timeout","error_message":"late"}`,
	} {
		p, err := troupe.ParsePayload([]byte(job))
		if err != nil {
			panic(err)
		}
		if err := i.DeadSet.Schedule(ctx, time.Unix(int64(n), 0), p); err != nil {
			panic(err)
		}
	}
	counts, err := i.DeadSet.DeleteAll(ctx, inspect.Bulk{Where: func(e *inspect.SortedEntry) bool { return e.Payload.Class() == "Report" }})
	fmt.Println(counts.Done, "deleted", err)
	entries, size, err := i.DeadSet.Page(ctx, 0, 25, false)
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		lines, err := e.ErrorBacktrace()
		fmt.Println(e.JID, "of", size, lines, err)
	}
	// Output:
	// 1 deleted <nil>
	// 2 of 1 [] <nil>
}
