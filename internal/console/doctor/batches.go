package doctor

import (
	"context"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/words"
)

const (
	quietBatch = 10 * time.Minute // how long nothing is counted in a batch until its jobs are looked for
	openBatch  = 24 * time.Hour   // how long nothing is pushed into an open batch until that is told
)

// batches looks for batches that do not end by themselves.
func (e *exam) batches() error {
	ctx, cancel := context.WithTimeout(e.ctx, searchTime)
	defer cancel()
	all, _, err := e.inspector.Batches(ctx)
	if err != nil {
		return err
	}
	var quiet []*inspect.Batch
	shown := 0
	for _, b := range all {
		age := time.Since(b.Last)
		if event := b.Refused(); event != "" && shown < shownLocks {
			shown++
			e.find(Danger, "look who has written the key of that queue, and RENAME it; then troupe batches close "+words.Word(b.ID)+" --reason 'the queue is mended' pushes it",
				"the callback %s of the batch %s is not pushed: its queue refuses it", event, batchName(b))
		}
		if b.State() == inspect.BatchOpen && age > openBatch && shown < shownLocks {
			shown++
			e.find(Note, "its program has ended in the middle, or closes it later; troupe batches close lets it end, and troupe batches cancel drops what waits",
				"the batch %s is open, and nothing was pushed into it or counted for %s", batchName(b), words.Few(age))
		}
		if !b.Ended() && b.Pending > 0 && age > quietBatch {
			quiet = append(quiet, b)
		}
	}
	for range 2 { // one that is missed once may be on its way
		found, err := e.inspector.FindBatchJobs(ctx, mostJobs, quiet...)
		if err != nil {
			return err
		}
		var left []*inspect.Batch
		for _, b := range quiet {
			if jobs := found[b.ID]; jobs != nil && jobs.Missing > 0 {
				left = append(left, b)
			}
		}
		quiet = left
	}
	for _, b := range quiet[:min(len(quiet), shownLocks)] {
		e.find(Warning, "troupe batches show "+words.Word(b.ID)+" tells which; if Ruby has run them: troupe batches count-out "+words.Word(b.ID)+" --reason 'Ruby has run them'",
			"the batch %s waits for jobs that are nowhere", batchName(b))
	}
	return nil
}

// batchName is a batch for people.
func batchName(b *inspect.Batch) string {
	if b.Name == "" {
		return words.Head(b.ID)
	}
	return words.Head(b.ID) + " (" + words.Head(masked.Text(b.Name)) + ")"
}
