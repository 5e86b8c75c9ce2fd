package actors

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actors/internal/work"
	"github.com/troupehq/troupe/internal/words"
)

// DrainReport tells what became of the jobs that ran when the stop began.
type DrainReport struct {
	Finished    []JobRef      // ended by themselves and were settled: the first hundred
	More        int           // that finished beside those
	Interrupted []JobRef      // iterable jobs that saved their cursor and went to the back of their queues
	Requeued    []JobRef      // put back into their queues at the deadline
	Abandoned   []JobRef      // unresponsive: still running when the process gave up on them (each is in Requeued or Left, too)
	Left        []JobRef      // could not be settled: they stay in progress until a rescuer comes
	Lost        []JobRef      // could not be settled, and their fetcher keeps nothing in progress in Redis
	Elapsed     time.Duration // from the stop to the end
	Cause       error         // why the daemon stopped by itself; nil after a signal or Stop
}

// String is the report in words, one job a line.
func (r DrainReport) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "stopped in %s: %d finished, ", r.Elapsed.Round(time.Millisecond), len(r.Finished)+r.More)
	if len(r.Interrupted) > 0 {
		fmt.Fprintf(&b, "%d interrupted, ", len(r.Interrupted))
	}
	fmt.Fprintf(&b, "%d requeued, %d abandoned, %d left for a rescuer", len(r.Requeued), len(r.Abandoned), len(r.Left))
	if len(r.Lost) > 0 {
		fmt.Fprintf(&b, ", %d LOST", len(r.Lost))
	}
	b.WriteByte('\n')
	for _, g := range []struct {
		name string
		jobs []JobRef
	}{{"finished", r.Finished}, {"interrupted", r.Interrupted}, {"requeued", r.Requeued}, {"abandoned", r.Abandoned}, {"left", r.Left}, {"lost", r.Lost}} {
		for _, j := range g.jobs {
			fmt.Fprintf(&b, "  %-11s %s %s (queue %s)\n", g.name, words.Text(j.JID), words.Text(j.Class), words.Text(j.Queue))
		}
		if g.name == "finished" && r.More > 0 {
			fmt.Fprintf(&b, "  %-11s %d more\n", g.name, r.More)
		}
	}
	return b.String()
}

// MarshalZerologObject writes the report into a log line: how many have finished, and jids.
func (r DrainReport) MarshalZerologObject(e *zerolog.Event) {
	e.Float64("elapsed_s", r.Elapsed.Seconds()).Int("finished", len(r.Finished)+r.More)
	for _, g := range []struct {
		name string
		jobs []JobRef
	}{{"finished_jids", r.Finished}, {"interrupted", r.Interrupted}, {"requeued", r.Requeued}, {"abandoned", r.Abandoned}, {"left", r.Left}, {"lost", r.Lost}} {
		jids := make([]string, len(g.jobs))
		for i, j := range g.jobs {
			jids[i] = words.Text(j.JID)
		}
		e.Strs(g.name, jids)
	}
	if r.More > 0 {
		e.Int("finished_more", r.More)
	}
}

// mostFinished is how many finished jobs a report names: a stop may see 100,000 a second.
const mostFinished = 100

// drain collects the report of a stop.
type drain struct {
	on atomic.Bool // the stop has begun

	mu     sync.Mutex
	report DrainReport
}

// add has f add to the report.
func (d *drain) add(f func(*DrainReport)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(&d.report)
}

// settled reports jobs that ended by themselves and were settled during the stop.
func (d *drain) settled(ws []*work.Item) {
	if len(ws) == 0 || !d.on.Load() {
		return
	}
	d.add(func(r *DrainReport) {
		for _, w := range ws {
			own := w.ByItself.Load()
			switch {
			case own && w.Again.Load():
				r.Interrupted = append(r.Interrupted, w.Job.Ref())
			case own && len(r.Finished) < mostFinished:
				r.Finished = append(r.Finished, w.Job.Ref())
			case own:
				r.More++
			}
		}
	})
}
