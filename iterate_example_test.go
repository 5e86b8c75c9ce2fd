package troupe_test

import (
	"context"
	"fmt"

	"github.com/troupehq/troupe"
)

// An iterable job works through a list. The daemon keeps its cursor, so that a run that was
// interrupted goes on where it was; without a daemon, as here, it runs to the end.
func ExampleHandleIterable() {
	jobs := troupe.NewRegistry()
	troupe.HandleIterable(jobs,
		func(_ context.Context, _ *troupe.Job[Greeting], from *int, yield func(int, string) bool) error {
			return troupe.YieldSlice([]string{"Anna", "Ben", "Carla"}, from, yield)
		},
		func(_ context.Context, job *troupe.Job[Greeting], name string) error {
			fmt.Println(job.Args.Word, name)
			return nil
		},
		troupe.IterableOptions[Greeting]{
			OnComplete: func(_ context.Context, _ *troupe.Job[Greeting], it troupe.Iteration) error {
				fmt.Println("complete in", it.Executions, "runs")
				return nil
			},
		})

	p, _ := troupe.ParsePayload([]byte(`{"class":"Greeting","args":["Hello"],"jid":"0d6ec0d6a7e2450f8a158dc8"}`))
	entry, _ := jobs.Lookup("Greeting")
	fmt.Println(entry.Handler.Perform(context.Background(), p))
	// Output:
	// Hello Anna
	// Hello Ben
	// Hello Carla
	// complete in 1 runs
	// <nil>
}

type Greeting struct {
	Word string `arg:"0"`
}

func (Greeting) Class() string { return "Greeting" }
