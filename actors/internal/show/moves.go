package show

import (
	"slices"
	"sync"

	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/tree"
)

// Moves counts where the events tell that jobs were moved which are not done. All methods are safe
// for concurrent use.
type Moves struct {
	classes []string // those of the registry

	mu sync.Mutex
	by map[job.Outcome][]uint64 // by number of the class as in Metrics.Classes
}

// NewMoves returns counters for these classes, which are sorted; every counter begins with 0.
func NewMoves(classes []string) *Moves {
	n := &Moves{classes: classes, by: map[job.Outcome][]uint64{}}
	for _, o := range job.Moves() {
		n.by[o] = make([]uint64, named(len(classes))+1)
	}
	return n
}

// Note counts the jobs of an event, if it is one of those.
func (n *Moves) Note(ev event.Event) {
	switch e := ev.(type) {
	case event.JobRetried:
		n.count(job.Retried, e.Job)
	case event.JobDied:
		n.count(job.Died, e.Job)
	case event.JobDropped:
		n.count(job.Dropped, e.Job)
	case event.JobsRequeued:
		n.count(job.Requeued, e.Jobs...)
	case event.JobRerouted:
		n.count(job.Rerouted, e.Job)
	case event.JobPoisoned:
		n.count(job.Poisoned, e.Job)
	}
}

func (n *Moves) count(o job.Outcome, jobs ...tree.JobRef) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, job := range jobs {
		i, ok := slices.BinarySearch(n.classes, job.Class)
		if !ok {
			i = len(n.classes)
		}
		n.by[o][named(i)]++
	}
}

// of are the moves of the jobs of a class, by its number.
func (n *Moves) of(class int) map[string]uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := map[string]uint64{}
	for o, counts := range n.by {
		all[o.String()] = counts[class]
	}
	return all
}
