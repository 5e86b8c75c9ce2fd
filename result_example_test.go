package troupe_test

import (
	"context"
	"fmt"

	"github.com/troupehq/troupe"
)

// Count is a job with a result.
type Count struct{ Table string }

// Class names it.
func (Count) Class() string { return "Count" }

// The result of a job is what its function returns. client.Await has it.
func ExampleHandleResult() {
	var jobs troupe.Registry
	troupe.HandleResult(&jobs, func(_ context.Context, job *troupe.Job[Count]) (int, error) {
		return len(job.Args.Table), nil
	})
	count, _ := jobs.Lookup("Count")
	fmt.Println(count.Options.ResultFor)
	// Output: 1h0m0s
}

// A handler sets a result, which is written with the ack. Outside of a job there is none.
func ExampleJob_SetResult() {
	count := func(_ context.Context, job *troupe.Job[Count]) error {
		return job.SetResult(len(job.Args.Table))
	}
	var jobs troupe.Registry
	troupe.Handle(&jobs, count)

	fmt.Println(count(context.Background(), &troupe.Job[Count]{}))
	// Output: set result: the context belongs to no job, expected that of a handler
}

// A handler tells how far it has come as often as it likes. Outside of a daemon nobody hears it.
func ExampleJob_SetProgress() {
	count := func(_ context.Context, job *troupe.Job[Count]) error {
		for i := range 1000 {
			job.SetProgress(int64(i), 1000, "rows of "+job.Args.Table)
		}
		return nil
	}
	var jobs troupe.Registry
	troupe.Handle(&jobs, count)

	fmt.Println(count(context.Background(), &troupe.Job[Count]{}))
	// Output: <nil>
}
