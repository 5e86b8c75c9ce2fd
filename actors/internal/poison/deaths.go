package poison

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/internal/words"
)

const (
	// deathWorkers is for how many jobs of dead processes the death handlers are called
	// at once.
	deathWorkers = 4
	// complainTime is the least time between two lines about slow handlers.
	complainTime = time.Minute
	// deathsShown is how many jids stand in the line about those that were not told of.
	deathsShown = 20
)

// Death is a job that a rescue has moved to the dead set.
type Death struct {
	Payload []byte // as it stands there
	Err     error
}

// Deaths tells the death handlers of such jobs: of a few at once, however many there
// are, so that slow handlers hold up no rescue. The others wait in memory, without a
// bound: none is dropped. A stop waits for them as it does for running jobs; those
// that are not told of by its end are logged.
type Deaths struct {
	tell    func(p *troupe.Payload, err error) // calls the handlers; nil if there are none
	spawn   func(counter *supervised.Tracker, f func())
	ended   func() // is called when a worker has ended
	log     zerolog.Logger
	actor   string // in the log
	workers *supervised.Tracker

	mu         sync.Mutex
	waiting    []Death
	running    int // workers
	closed     bool
	complained time.Time
}

// NewDeaths makes a Deaths. tell calls the handlers of one job, nil if there are none;
// spawn starts a goroutine and counts it; ended is called when one has ended.
func NewDeaths(
	tell func(p *troupe.Payload, err error), spawn func(*supervised.Tracker, func()), ended func(), log zerolog.Logger, actor string,
) *Deaths {
	return &Deaths{tell: tell, spawn: spawn, ended: ended, log: log, actor: actor, workers: supervised.NewTracker()}
}

// Add has the handlers told of ds.
func (q *Deaths) Add(ds []Death) {
	if len(ds) == 0 || q.tell == nil {
		return
	}
	q.mu.Lock()
	behind := len(q.waiting)
	q.waiting = append(q.waiting, ds...)
	q.fillLocked()
	complain := behind > 0 && time.Since(q.complained) > complainTime
	if complain {
		q.complained = time.Now()
	}
	closed := q.closed
	q.mu.Unlock()
	if closed {
		q.giveUp()
	} else if complain {
		q.log.Warn().Str("actor", q.actor).Int("jobs", behind+len(ds)).
			Msg("death handlers are slow: jobs of dead processes wait for them")
	}
}

// fillLocked starts workers for what waits.
func (q *Deaths) fillLocked() {
	for n := len(q.waiting); n > 0 && q.running < deathWorkers && !q.closed; n-- {
		q.running++
		q.spawn(q.workers, q.work)
	}
}

// work tells of what waits. A panic, of a hook of the user's logger say, costs one
// job its log line, and not the others their handlers.
func (q *Deaths) work() {
	defer func() {
		q.mu.Lock()
		q.running--
		q.fillLocked()
		q.mu.Unlock()
		q.ended()
	}()
	for {
		q.mu.Lock()
		if len(q.waiting) == 0 || q.closed {
			q.mu.Unlock()
			return
		}
		next := q.waiting[0]
		q.waiting[0] = Death{}
		q.waiting = q.waiting[1:]
		q.mu.Unlock()
		if p, err := troupe.ParsePayload(next.Payload); err == nil {
			q.tell(p, next.Err)
		}
	}
}

// Idle tells whether the handlers were told of all.
func (q *Deaths) Idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) == 0 && q.running == 0
}

// Close waits until the handlers were called for all jobs, or ctx ends. It gives up the
// other jobs.
func (q *Deaths) Close(ctx context.Context) {
	q.workers.Await(ctx, q.Idle)
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.giveUp()
}

// giveUp logs what will not be told.
func (q *Deaths) giveUp() {
	q.mu.Lock()
	left, running := q.waiting, q.running
	q.waiting = nil
	q.mu.Unlock()
	if len(left) == 0 && running == 0 {
		return
	}
	jids := make([]string, 0, deathsShown)
	for _, l := range left[:min(len(left), deathsShown)] {
		if p, err := troupe.ParsePayload(l.Payload); err == nil {
			jids = append(jids, words.Text(p.JID()))
		}
	}
	q.log.Error().Str("actor", q.actor).Int("jobs", len(left)).Strs("first_jids", jids).Int("running", running).
		Msg("death handlers were not told in time: these jobs are in the dead set without them")
}
