package doctor

import (
	"slices"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/console/mask"
	"github.com/troupehq/troupe/internal/words"
)

// masked hides what is secret in texts of others, whoever asks.
var masked = mask.New(mask.Mask, nil, nil)

// periodic looks for periodic jobs that push nothing, and for those whose jobs nobody runs.
func (e *exam) periodic() error {
	jobs, err := e.inspector.PeriodicJobs(e.ctx)
	if err != nil {
		return err
	}
	for _, j := range jobs {
		name := words.Head(j.Name)
		listens := func(p *inspect.Process) bool {
			return !p.Stopping && time.Since(p.Beat) <= beat.Silence && slices.Contains(p.Queues, j.Queue)
		}
		unhandled := slices.ContainsFunc(e.report.Findings, func(f Finding) bool { return f.Code == NoHandler && f.Class == j.Class })
		before := len(e.report.Findings)
		switch {
		case j.Stuck:
			e.find(Danger, "troupe periodic show "+words.Word(j.Name), "the periodic job %s pushes nothing: %s", name, masked.Text(j.Why))
		case j.Disabled:
		case unhandled:
			e.find(Warning, "register a handler, or: troupe periodic disable "+words.Word(j.Name), "the periodic job %s pushes jobs of the class %s, which has no handler where they run", name, words.Head(j.Class))
		case !slices.ContainsFunc(e.processes, listens) && e.fleetErr == nil:
			e.find(Warning, "let a process take from it: "+words.TakeFrom(words.Word(j.Queue)), "the periodic job %s pushes to the queue %s, and no process listens on it", name, words.Head(j.Queue))
		}
		for i := range e.report.Findings[before:] {
			e.report.Findings[before+i].Periodic = j.Name
		}
	}
	return nil
}
