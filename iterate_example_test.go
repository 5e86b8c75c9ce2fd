package troupe_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupehq/troupe"
)

// An iterable job: interrupted after two items, it goes on with the third. Here a
// test stands in for the daemon, which gives each such job a keeper of its own.
func ExampleHandleIterable() {
	var jobs troupe.Registry
	troupe.HandleIterable(&jobs,
		func(_ context.Context, _ *troupe.Job[Greeting], from *int, yield func(int, string) bool) error {
			return troupe.YieldSlice([]string{"Anna", "Ben", "Carla", "Dirk"}, from, yield)
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
	ctx := troupe.WithIterationKeeper(context.Background(), &memory{items: 2})
	for {
		err := entry.Handler.Perform(ctx, p)
		if !errors.Is(err, troupe.ErrInterrupted) {
			break
		}
		fmt.Println(err)
	}
	// Output:
	// Hello Anna
	// Hello Ben
	// troupe: iterable job interrupted, to be continued
	// Hello Carla
	// Hello Dirk
	// complete in 2 runs
}

type Greeting struct {
	Word string `arg:"0"`
}

func (Greeting) Class() string { return "Greeting" }

// memory keeps the state of one job and interrupts it after some items.
type memory struct {
	it    troupe.Iteration
	items int
}

func (m *memory) Load(context.Context) (troupe.Iteration, error) { return m.it, nil }

func (m *memory) Save(_ context.Context, it troupe.Iteration) (time.Time, error) {
	m.it = it
	return time.Time{}, nil
}

func (m *memory) Interrupted() bool { m.items--; return m.items == -1 }

func (m *memory) End(it troupe.Iteration, _ bool) { m.it = it }
