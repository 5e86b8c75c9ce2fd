package actors

import (
	"slices"
	"sync"
)

// moves counts where the events tell that jobs were moved which are not done.
type moves struct {
	classes []string // those of the registry

	mu sync.Mutex
	by map[string][]uint64 // by move, and by number of the class as in Metrics.Classes
}

// init has every counter begin with 0.
func (n *moves) init(classes []string) {
	n.classes, n.by = classes, map[string][]uint64{}
	for _, move := range []string{"retried", "died", "dropped", "requeued", "rerouted", "poisoned"} {
		n.by[move] = make([]uint64, named(len(classes))+1)
	}
}

// note counts the jobs of an event, if it is one of those.
func (n *moves) note(ev Event) {
	switch e := ev.(type) {
	case JobRetried:
		n.count("retried", e.Job)
	case JobDied:
		n.count("died", e.Job)
	case JobDropped:
		n.count("dropped", e.Job)
	case JobsRequeued:
		n.count("requeued", e.Jobs...)
	case JobRerouted:
		n.count("rerouted", e.Job)
	case JobPoisoned:
		n.count("poisoned", e.Job)
	}
}

func (n *moves) count(move string, jobs ...JobRef) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, job := range jobs {
		i, ok := slices.BinarySearch(n.classes, job.Class)
		if !ok {
			i = len(n.classes)
		}
		n.by[move][named(i)]++
	}
}

// of are the moves of the jobs of a class, by its number.
func (n *moves) of(class int) map[string]uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := map[string]uint64{}
	for move, counts := range n.by {
		all[move] = counts[class]
	}
	return all
}
