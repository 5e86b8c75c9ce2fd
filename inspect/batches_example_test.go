package inspect_test

import (
	"context"
	"fmt"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/inspect"
)

// Of a batch of three jobs one was deleted by Ruby, so that the batch waits for what is nowhere. It is counted out.
func ExampleBatch_CountOut() {
	rdb, end := inside()
	defer end()
	ctx, i := context.Background(), inspect.New(rdb)
	_, err := client.New(rdb).Batch(ctx, client.BatchOptions{Name: "import", Success: on("success")}, func(b *client.Batch) error {
		for range 3 {
			if _, err := b.PushClass(ctx, "Work", nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = rdb.RPop(ctx, "queue:default").Err() // as Ruby deletes a job
	}
	if err != nil {
		panic(err)
	}

	all, _, err := i.Batches(ctx)
	if err != nil {
		panic(err)
	}
	b := all[0]
	fmt.Printf("%s: %s, %d of %d jobs are not done, ended: %v, refused: %q\n", b.Name, b.State(), b.Pending, b.Total, b.Ended(), b.Refused())
	jobs, err := i.FindBatchJobs(ctx, 1_000_000, b)
	if err != nil {
		panic(err)
	}
	fmt.Println(jobs[b.ID].Places, "missing:", jobs[b.ID].Missing, jobs[b.ID].MissingAt)
	n, err := b.CountOut(ctx, 0) // with Ruby beside, BatchLooks
	fmt.Println("counted out:", n, err)

	if b, err = i.Batch(ctx, b.ID); err != nil {
		panic(err)
	}
	fmt.Println("pending:", b.Pending)
	children, _, err := b.Children(ctx)
	fmt.Println("batches within it:", len(children), err)
	waits, callback, err := i.FindCallback(ctx, b.Callbacks[0].JID)
	fmt.Println(waits.Name, "waits to push", callback.Event, err)
	for job, err := range i.Queue("default").OldestFirst(ctx) {
		if err != nil {
			panic(err)
		}
		id, index := job.Batch()
		_, event := job.CallbackOf()
		fmt.Printf("job %d of %v, callback of %q\n", index, id == b.ID, event)
	}
	// Output:
	// import: running, 3 of 3 jobs are not done, ended: false, refused: ""
	// map[queue:default:2] missing: 1 [0]
	// counted out: 1 <nil>
	// pending: 2
	// batches within it: 0 <nil>
	// import waits to push success <nil>
	// job 1 of true, callback of ""
	// job 2 of true, callback of ""
}
