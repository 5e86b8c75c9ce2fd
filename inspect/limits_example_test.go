package inspect_test

import (
	"context"
	"fmt"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/inspect"
)

// A limit that is set to 0 by hand holds the jobs of its class; they are looked at, and let in one by one or together.
func ExampleInspector_Limits() {
	rdb, end := inside()
	defer end()
	ctx, i := context.Background(), inspect.New(rdb)
	var jobs troupe.Registry
	troupe.HandleClass(&jobs, "Call", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return nil }),
		troupe.Options{Limits: []troupe.Limit{{Name: "api", AtOnce: 5}}})
	d, stop := started(ctx, actors.Config{Redis: rdb, Registry: &jobs, Embedded: true})
	defer stop()
	until := func(held int64, done uint64) {
		for n := int64(-1); n != held || d.Stats().Processed != done; {
			time.Sleep(time.Millisecond) // between two looks
			n, _ = i.HeldSize(ctx)
		}
	}
	for _, _, err := i.Limit(ctx, "api"); err != nil; _, _, err = i.Limit(ctx, "api") {
		time.Sleep(time.Millisecond) // until the daemon has told Redis of it
	}

	none, err := inspect.ParseAllowance("0")
	if err == nil {
		err = i.SetLimit(ctx, "api", none)
	}
	if err != nil {
		panic(err)
	}
	for range 5 {
		if _, err := client.New(rdb).PushClass(ctx, "Call", nil); err != nil {
			panic(err)
		}
	}
	until(5, 0)

	all, _, err := i.Limits(ctx)
	if err != nil {
		panic(err)
	}
	for _, l := range all {
		fmt.Printf("%s: %v (%v by its configuration), %d run, %d held, %d rest, %v\n", l.Name, l.Allows, l.Configured, l.Taken(), l.Held(), l.Resting(), l.Allows.Defined() && !l.Oldest().IsZero())
	}
	for job, err := range i.HeldJobs(ctx) {
		if err != nil {
			panic(err)
		}
		found, err := i.FindHeld(ctx, job.JID)
		if err != nil {
			panic(err)
		}
		before, err := found.Ahead(ctx)
		fmt.Println("jobs before it:", before, err)
		outcome, err := found.Release(ctx) // this one, although there is no room
		fmt.Println("release:", outcome, err)
		break
	}
	until(4, 1)
	for rule, err := range i.HeldRules(ctx) {
		if err != nil {
			panic(err)
		}
		size, err := rule.Jobs().Size(ctx)
		fmt.Println(rule.ID, size, err)
		has, err := rule.HasSlot(ctx, "nobody")
		fmt.Println("nobody has a slot:", has, err)
		ended, err := rule.Rest(ctx, 0)
		fmt.Println("ended a rest:", ended, err)
		n, err := rule.Release(ctx, 1) // the next one
		fmt.Println("released", n, err)
	}
	until(3, 2)
	fmt.Println("reset:", i.ResetLimit(ctx, "api"))
	until(0, 5)
	one, err := i.LimitRule(ctx, "api")
	if err != nil {
		panic(err)
	}
	n, err := one[0].Rules[0].SendBack(ctx) // what is held goes back to its queue, for Ruby to run
	fmt.Println(one[0].Allows, n, err)
	// Output:
	// api: 0 at once (5 at once by its configuration), 0 run, 5 held, 0 rest, true
	// jobs before it: 0 <nil>
	// release: done <nil>
	// api 4 <nil>
	// nobody has a slot: false <nil>
	// ended a rest: false <nil>
	// released 1 <nil>
	// reset: <nil>
	// 5 at once 0 <nil>
}

// started is a daemon that runs.
func started(ctx context.Context, cfg actors.Config) (d *actors.Daemon, stop func()) {
	d, err := actors.New(cfg)
	if err == nil {
		err = d.Start(ctx)
	}
	if err != nil {
		panic(err)
	}
	return d, func() { _, _ = d.Stop(ctx) }
}
