// Package show is what a daemon shows of itself: its tree, health, metrics and pulse, and the
// exceptional events that a beat publishes. It reads a View and changes nothing.
package show

import (
	"strings"
	"time"

	"github.com/troupehq/troupe/actors/internal/env"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/internal/logs"
	"github.com/troupehq/troupe/internal/runs"
	"github.com/troupehq/troupe/internal/tree"
)

// View is a daemon at one moment.
type View struct {
	Now      time.Time
	System   *supervised.System
	Outage   *env.Outage
	Log      logs.State
	Capsules []Capsule
	Outboxes []Outbox

	Phase      string    // starting, running, quiet, stopping or ended
	Running    bool      // it was started
	Registered bool      // a beat has reached Redis
	Heart      string    // the path of the heartbeat
	Since      time.Time // it was started, or made if it was not
	BeatAt     time.Time // the last beat was over, well or not
	BeatEvery  time.Duration
	StopEnd    time.Time // the latest time at which a stop that is under way ends
	Err        error     // for which it has stopped by itself
	Fencings   uint64
}

// Capsule is a capsule at one moment.
type Capsule struct {
	Name, Path  string
	Concurrency int
	Quiet       bool
	QuietBy     string // the actor for whose end, if its strategy has stopped it

	Silent      bool      // no fetch has succeeded although one should have
	CallDue     time.Time // the fetch call that is under way is to be over by then; zero if there is none
	FencedSince time.Time // and no fetch has succeeded since; else zero

	Busy      int                    // jobs that run
	Starting  map[string]bool        // processors that take no jobs yet, by path
	Spare     map[string]bool        // processors that the capsule has no more, since it has fewer by now, by path
	Working   map[string]tree.JobRef // jobs that processors run, by path
	Unsettled map[string]int         // jobs that were fetched and are not settled, by queue

	Unresponsive      []tree.Unresponsive // the oldest of them
	UnresponsiveCount int
	Replaced          []tree.JobRef // of the unresponsive jobs those that have no processor any more

	Queues        []runs.Queue
	Fetch, Settle runs.Histogram
}

func (c *Capsule) fetcher() string { return c.Path + "/fetcher" }

// allQuiet tells whether nothing is fetched any more.
func (v *View) allQuiet() bool {
	for i := range v.Capsules {
		if !v.Capsules[i].Quiet {
			return false
		}
	}
	return true
}

// short is a path without the name of the root; that of the root stays.
func short(path string) string {
	if _, below, ok := strings.Cut(path, "/"); ok {
		return below
	}
	return path
}
