// Package runs counts how the runs of jobs have ended and how long they took: each slot of a
// daemon for itself, so that no two processors write the same counter for each job. What
// Sidekiq's Metrics page shows and what the daemon tells of itself are sums of the same counts.
// They only grow.
package runs

import (
	"time"

	"github.com/troupehq/troupe/internal/job"
)

// Totals are the runs of one class. The zero Totals have none.
type Totals struct {
	Ended [job.Ends]uint64 // by their outcome
	Late  [job.Ends]uint64 // likewise, of those whose jobs' outcome had been decided elsewhere

	// Times are those of the done and interrupted ones, late or not. How long a failure took
	// depends on the fault more than on the job: Sidekiq leaves it out as well.
	Times Histogram
}

// Count counts a run that took d. late tells that the outcome of its job had been decided
// elsewhere.
func (t *Totals) Count(o job.Outcome, late bool, d time.Duration) {
	if late {
		t.Late[o]++
	} else {
		t.Ended[o]++
	}
	if o == job.Done || o == job.Interrupted {
		t.Times.Observe(d, 1)
	}
}

// Add adds o.
func (t *Totals) Add(o *Totals) {
	for i := range job.Ends {
		t.Ended[i] += o.Ended[i]
		t.Late[i] += o.Late[i]
	}
	t.Times.Add(&o.Times)
}

// Of is how many have ended in one of these outcomes, late or not.
func (t *Totals) Of(which ...job.Outcome) (n uint64) {
	for _, o := range which {
		n += t.Ended[o] + t.Late[o]
	}
	return n
}

// Processed are the runs that Sidekiq counts: all but those of jobs that were parked or moved.
func (t *Totals) Processed() uint64 { return t.Of(job.Done, job.Interrupted, job.Expired) + t.Failed() }

// Failed are those with an error that is a failure.
func (t *Totals) Failed() uint64 { return t.Of(job.Error, job.Panic) }
