package actors

import (
	"context"
	"sync"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/internal/cut"
)

const (
	// deathWorkers is how many jobs of dead processes the death handlers are told of
	// at once.
	deathWorkers = 4
	// deathsShown is how many jids stand in the line about those that were not told of.
	deathsShown = 20
)

// death is a job that a rescue has moved to the dead set.
type death struct {
	payload []byte // as it stands there
	err     error
}

// deaths tells the death handlers of such jobs: of a few at once, however many there
// are, so that slow handlers hold up no rescue. The others wait in memory, without a
// bound: none is dropped. A stop waits for them as it does for running jobs; those
// that are not told of by its end are logged.
type deaths struct {
	d       *Daemon
	workers *supervised.Tracker

	mu         sync.Mutex
	waiting    []death
	running    int // workers
	closed     bool
	complained time.Time
}

func newDeaths(d *Daemon) *deaths { return &deaths{d: d, workers: supervised.NewTracker()} }

// add has the handlers told of ds.
func (q *deaths) add(ds []death) {
	if len(ds) == 0 || len(q.d.cfg.DeathHandlers) == 0 {
		return
	}
	q.mu.Lock()
	behind := len(q.waiting)
	q.waiting = append(q.waiting, ds...)
	q.fill()
	complain := behind > 0 && time.Since(q.complained) > complaintTime
	if complain {
		q.complained = time.Now()
	}
	closed := q.closed
	q.mu.Unlock()
	if closed {
		q.giveUp()
	} else if complain {
		q.d.log.Warn().Str("actor", launcherName+"/rescuer").Int("jobs", behind+len(ds)).
			Msg("death handlers are slow: jobs of dead processes wait for them")
	}
}

// fill starts workers for what waits. q.mu is held.
func (q *deaths) fill() {
	for n := len(q.waiting); n > 0 && q.running < deathWorkers && !q.closed; n-- {
		q.running++
		q.d.system.SpawnAs(q.workers, q.d.launcher.Load(), q.work)
	}
}

// work tells of what waits. A panic, of a hook of the user's logger say, costs one
// job its log line, and not the others their handlers.
func (q *deaths) work() {
	defer func() {
		q.mu.Lock()
		q.running--
		q.fill()
		q.mu.Unlock()
		if q.d.quieting.Load() {
			q.d.wakeLauncher()
		}
	}()
	for {
		q.mu.Lock()
		if len(q.waiting) == 0 || q.closed {
			q.mu.Unlock()
			return
		}
		next := q.waiting[0]
		q.waiting[0] = death{}
		q.waiting = q.waiting[1:]
		q.mu.Unlock()
		if p, err := troupe.ParsePayload(next.payload); err == nil {
			q.d.tellDeathHandlers(p, next.err)
		}
	}
}

// idle tells whether the handlers were told of all.
func (q *deaths) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) == 0 && q.running == 0
}

// close waits until the handlers were told of all or ctx ends, and gives up on the
// others.
func (q *deaths) close(ctx context.Context) {
	q.workers.Await(ctx, q.idle)
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.giveUp()
}

// giveUp logs what will not be told.
func (q *deaths) giveUp() {
	q.mu.Lock()
	left, running := q.waiting, q.running
	q.waiting = nil
	q.mu.Unlock()
	if len(left) == 0 && running == 0 {
		return
	}
	jids := make([]string, 0, deathsShown)
	for _, l := range left[:min(len(left), deathsShown)] {
		if p, err := troupe.ParsePayload(l.payload); err == nil {
			jids = append(jids, cut.Text(p.JID()))
		}
	}
	q.d.log.Error().Str("actor", launcherName+"/rescuer").Int("jobs", len(left)).Strs("first_jids", jids).Int("running", running).
		Msg("death handlers were not told in time: these jobs are in the dead set without them")
}
