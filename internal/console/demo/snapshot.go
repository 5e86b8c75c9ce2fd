package demo

import (
	"time"

	"github.com/troupehq/troupe/actors"
)

// phase of the demo.
type phase string

const (
	phaseRunning  phase = "running"
	phaseQuiet    phase = "quiet"
	phaseStopping phase = "stopping"
)

// snapshot is all that is shown, at one instant.
type snapshot struct {
	Now   time.Time
	Up    time.Duration // since the tree runs
	Left  time.Duration // until the demo ends by itself; 0 if it does not
	Phase phase
	Wait  time.Duration // until the deadline of the stop; below 0 past it

	Stats   actors.Stats
	Slots   int // processors
	Tree    actors.Tree
	Counts  counts // of Redis
	Counted bool   // Counts are fresh

	Pushed, Unpushed, Retried uint64
	Full                      bool      // the producer waits for the queues to get shorter
	DoneRate, PushRate        float64   // per second
	History                   []float64 // runs per second, oldest first
	Start, Late               percentiles
}

// snapshot looks at everything. It never waits for Redis; only one goroutine may
// call it, for the meter.
func (s *show) snapshot(now time.Time) snapshot {
	b, stats := s.measures, s.daemon.Stats()
	shot := snapshot{
		Now: now, Up: now.Sub(s.up), Phase: phaseRunning,
		Stats: stats, Slots: s.o.concurrency + batchConcurrency, Tree: s.daemon.Tree(), Counts: s.census.latest(),
		Pushed: b.pushed.Load(), Unpushed: b.unpushed.Load(), Retried: b.retried.Load(), Full: b.full.Load(),
		Start: b.start.percentiles(now), Late: b.late.percentiles(now),
	}
	shot.Counted = now.Sub(shot.Counts.At) < censusAge
	if s.o.length > 0 {
		shot.Left = max(0, s.o.length-shot.Up)
	}
	if at, ok := b.stopping(); ok {
		shot.Phase, shot.Wait = phaseStopping, s.o.timeout-now.Sub(at)
	} else if stats.Quiet {
		shot.Phase = phaseQuiet
	}
	shot.DoneRate, shot.PushRate = s.meter.Add(now, stats.Processed, shot.Pushed)
	shot.History = s.meter.History
	return shot
}

// restarts of the whole tree.
func restarts(t actors.Tree) int {
	n := 0
	for _, node := range t {
		n += node.Restarts
	}
	return n
}
