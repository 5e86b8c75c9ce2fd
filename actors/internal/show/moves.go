package show

import (
	"slices"
	"sync"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/tree"
)

// Moves counts where the events tell that jobs were moved which are not done. All methods are safe
// for concurrent use.
type Moves struct {
	classes  []string // those of the registry
	registry *troupe.Registry

	mu sync.Mutex
	by map[job.Outcome][]uint64 // by number of the class as in Metrics.Classes
}

// NewMoves returns counters for the classes of a registry; every counter begins with 0.
func NewMoves(registry *troupe.Registry) *Moves {
	classes := registry.Classes()
	n := &Moves{classes: classes, registry: registry, by: map[job.Outcome][]uint64{}}
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
		i := len(n.classes)
		if e, ok := n.registry.Lookup(job.Class); ok { // an alias is its class
			i, _ = slices.BinarySearch(n.classes, e.Class)
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
