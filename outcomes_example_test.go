package troupe_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupehq/troupe"
)

// What a handler may return beside nil and an error, and what it asks for.
func ExampleOutcomeError() {
	for _, err := range []error{
		troupe.Discard(errDeclined),               // gone for good: no retry, no dead set
		troupe.Kill(errDeclined),                  // to the dead set at once
		troupe.RetryIn(time.Hour, errDeclined),    // retried then, and counted
		troupe.Park(time.Minute, errors.New("…")), // put off: it has not failed
		troupe.MoveTo("machine-with-a-gpu"),       // into another queue: it has not failed
	} {
		if asked, ok := errors.AsType[*troupe.OutcomeError](err); ok {
			fmt.Println(asked.Discard, asked.Kill, asked.Park, asked.Move, asked.Queue, asked.Delay, asked.Err)
		}
	}
	// Output:
	// true false false false  0s card declined
	// false true false false  0s card declined
	// false false false false  1h0m0s card declined
	// false false true false  1m0s …
	// false false false true machine-with-a-gpu 0s <nil>
}

// A class that was renamed keeps its jobs, and a fallback runs those of all others.
func ExampleRegistry_Alias() {
	var jobs troupe.Registry
	troupe.Handle(&jobs, func(context.Context, *troupe.Job[ChargeCard]) error { return nil })
	jobs.Alias("ChargeCardJob", "Billing::ChargeCard")
	troupe.HandleClass(&jobs, troupe.AnyClass, troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error {
		return fmt.Errorf("nobody knows the class %q", p.Class())
	}))
	for _, class := range []string{"Billing::ChargeCard", "ChargeCardJob", "Report"} {
		entry, _ := jobs.Lookup(class)
		fmt.Println(class, "is run by", entry.Class)
	}
	// Output:
	// Billing::ChargeCard is run by Billing::ChargeCard
	// ChargeCardJob is run by Billing::ChargeCard
	// Report is run by *
}

// A tenth of the jobs of a class is run by this daemon, the others by whoever takes from the other queue.
func ExamplePercent() {
	var jobs troupe.Registry
	troupe.Handle(&jobs, func(context.Context, *troupe.Job[ChargeCard]) error { return nil },
		troupe.Options{Take: troupe.Percent(10), RestQueue: "critical_ruby"})

	taken, share := 0, troupe.Percent(10)
	for n := range 10_000 {
		if share.Has(fmt.Sprintf("%024x", n)) {
			taken++
		}
	}
	fmt.Println(taken > 800 && taken < 1200)
	// Output: true
}

// The options of a class in one daemon: they count before those of its type.
func ExampleOptions() {
	var jobs troupe.Registry
	troupe.Handle(&jobs, func(context.Context, *troupe.Job[ChargeCard]) error { return nil }, troupe.Options{
		Retries: troupe.Times(3), // troupe.Never() drops a job that fails
		Timeout: time.Minute,
		RetryIn: func(attempt int, err error, _ *troupe.Payload) troupe.Delay {
			if errors.Is(err, errDeclined) {
				return troupe.KillDelay
			}
			return troupe.Delay(time.Duration(attempt) * time.Minute)
		},
	})
	entry, _ := jobs.Lookup("Billing::ChargeCard")
	n, _ := entry.Options.Retries.Limit()
	fmt.Println(n, entry.Options.Queue)
	// Output: 3 critical
}

// A goroutine of a job: what it returns, and a panic in it, are the job's.
func ExampleGo() { //nolint:testableexamples // it takes a daemon
	jobs := troupe.NewRegistry()
	troupe.Handle(jobs, func(ctx context.Context, _ *troupe.Job[ChargeCard]) error {
		troupe.Go(ctx, func(context.Context) error { return errors.New("half of it failed") })
		if info, ok := troupe.JobInfoFrom(ctx); ok && info.Attempt > 1 {
			fmt.Println("once more:", info.JID)
		}
		return nil
	})
}
