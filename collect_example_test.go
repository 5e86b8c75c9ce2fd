package troupe_test

import (
	"context"
	"fmt"

	"github.com/troupehq/troupe"
)

// A handler of many jobs has an outcome for each. The daemon collects the jobs of a call; without one, as here, each job is
// a call of its own.
func ExampleHandleMany() {
	jobs := troupe.NewRegistry()
	troupe.HandleMany(jobs, func(_ context.Context, jobs []*troupe.Job[Greeting]) []error {
		errs := make([]error, len(jobs))
		for i, job := range jobs {
			if job.Args.Word == "" {
				errs[i] = troupe.Discard(fmt.Errorf("job %s has no word", job.JID))
			}
			fmt.Printf("%q, %v\n", job.Args.Word, job.Context().Err())
		}
		return errs
	}, troupe.Collect{Max: 100})

	entry, _ := jobs.Lookup("Greeting")
	for _, raw := range []string{`{"class":"Greeting","args":["Hello"],"jid":"a"}`, `{"class":"Greeting","args":[""],"jid":"b"}`} {
		p, _ := troupe.ParsePayload([]byte(raw))
		fmt.Println(entry.Handler.Perform(context.Background(), p))
	}
	// Output:
	// "Hello", <nil>
	// <nil>
	// "", <nil>
	// job b has no word
}

func ExampleHandleManyClass() {
	jobs := troupe.NewRegistry()
	troupe.HandleManyClass(jobs, "Import", func(_ context.Context, jobs []*troupe.Job[troupe.RawArgs]) []error {
		for _, job := range jobs {
			fmt.Println(job.JID, string(job.Args))
		}
		return nil // all are done
	}, troupe.Collect{})

	p, _ := troupe.ParsePayload([]byte(`{"class":"Import","args":[1,{"name":"Anna"}],"jid":"a"}`))
	entry, _ := jobs.Lookup("Import")
	fmt.Println(entry.Handler.Perform(context.Background(), p))
	// Output:
	// a [1,{"name":"Anna"}]
	// <nil>
}
