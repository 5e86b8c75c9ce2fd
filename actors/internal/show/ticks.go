package show

import (
	"maps"
	"slices"
	"sync"

	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/runs"
)

// PeriodicMetrics are the ticks of one periodic job that this process has dealt with, as the leader.
type PeriodicMetrics struct {
	Name  string            // "" for those that are not in the configuration
	Ticks map[string]uint64 // by what became of them, as in event.PeriodicTicked
	// Missed are ticks that nobody has dealt with in time, and for which no job was pushed.
	Missed uint64
}

// maxPeriodic is how many periodic jobs the metrics have at most, with the one for all others.
const maxPeriodic = 50

// tickEnds are what can become of a tick.
var tickEnds = []string{"pushed", "missed", "disabled", "repeated", "stopped", "overlapped"}

// Ticks counts what the events tell of the ticks of periodic jobs. All methods are safe for
// concurrent use.
type Ticks struct {
	mu   sync.Mutex
	by   []PeriodicMetrics
	late runs.Histogram
}

// NewTicks returns counters for the first of these periodic jobs and for all others; every counter
// begins with 0.
func NewTicks(names []string) *Ticks {
	t := &Ticks{}
	for _, name := range append(slices.Clone(names[:min(len(names), maxPeriodic-1)]), "") {
		m := PeriodicMetrics{Name: name, Ticks: map[string]uint64{}}
		for _, end := range tickEnds {
			m.Ticks[end] = 0
		}
		t.by = append(t.by, m)
	}
	return t
}

// Note counts the tick of an event, if it is one.
func (t *Ticks) Note(ev event.Event) {
	e, ok := ev.(event.PeriodicTicked)
	if !ok {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.by, func(m PeriodicMetrics) bool { return m.Name == e.Name })
	if i < 0 {
		i = len(t.by) - 1
	}
	m := &t.by[i]
	m.Ticks[e.What]++
	if m.Missed += uint64(e.Missed); e.What == "missed" {
		m.Missed++
	}
	if e.What == "pushed" {
		t.late.Observe(e.Late, 1)
	}
}

// of are the counts of now.
func (t *Ticks) of() (all []PeriodicMetrics, late Histogram) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.by {
		m.Ticks = maps.Clone(m.Ticks)
		all = append(all, m)
	}
	return all, histogram(&t.late)
}
