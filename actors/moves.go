package actors

import (
	"slices"
	"sync"

	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/job"
)

// moves counts where the events tell that jobs were moved which are not done.
type moves struct {
	classes []string // those of the registry

	mu sync.Mutex
	by map[job.Outcome][]uint64 // by number of the class as in Metrics.Classes
}

// init has every counter begin with 0.
func (n *moves) init(classes []string) {
	n.classes, n.by = classes, map[job.Outcome][]uint64{}
	for _, o := range job.Moves() {
		n.by[o] = make([]uint64, named(len(classes))+1)
	}
}

// note counts the jobs of an event, if it is one of those.
func (n *moves) note(ev event.Event) {
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

func (n *moves) count(o job.Outcome, jobs ...JobRef) {
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
func (n *moves) of(class int) map[string]uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := map[string]uint64{}
	for o, counts := range n.by {
		all[o.Name()] = counts[class]
	}
	return all
}
