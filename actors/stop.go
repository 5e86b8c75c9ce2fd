package actors

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/actors/internal/work"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/logs"
)

// requeueTime is how long job contexts stay uncancelled while the bulk requeue is not
// confirmed; after it both go on side by side. docs/architecture.md has all waits of a
// stop: 7.5 s beyond the timeout.
const requeueTime = 1500 * time.Millisecond

func (d *Daemon) phase() phase {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state
}

func (d *Daemon) deadline() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.until
}

// Quiet ends fetching and polling for good; running jobs go on, the process
// stays and keeps beating. It returns at once; a second call does nothing.
func (d *Daemon) Quiet() {
	if !d.advance(phaseQuiet) {
		return
	}
	d.beginQuiet()
}

// beginQuiet sets the durable flags first, so that quiet works even while an actor is
// down, then rings.
func (d *Daemon) beginQuiet() {
	d.quieting.Store(true)
	d.events.publish(event.QuietBegan{At: time.Now()})
	for _, c := range d.capsules {
		c.beginQuiet()
	}
	supervised.Tell(func() { d.env.Log.Info().Msg("quiet: no new jobs will be fetched") })
	d.env.Changes.Wake()
	d.env.System.Send(launcherName, quiet{})
	d.hooks.fire("quiet", reversed(d.cfg.On.Quiet))
}

// advance moves the phase forward; false if it is there already.
func (d *Daemon) advance(to phase) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.running || d.state >= to {
		return false
	}
	d.state = to
	return true
}

// Stop runs the stop protocol and waits for its end: quiet; wait until idle or
// Config.Timeout; requeue in bulk what still runs; cancel the job contexts with
// troupe.ErrShutdown; Config.Grace. Further calls wait for the same end. When
// ctx ends first, its error is returned and the protocol goes on.
func (d *Daemon) Stop(ctx context.Context) (DrainReport, error) {
	d.mu.Lock()
	running := d.running
	d.mu.Unlock()
	if !running {
		return DrainReport{}, errors.New("actors: the daemon was not started")
	}
	d.beginStop(d.cfg.Timeout)
	select {
	case <-d.ended:
		return d.Report(), nil
	case <-ctx.Done():
		return DrainReport{}, ctx.Err()
	}
}

// Done is closed when the daemon has ended.
func (d *Daemon) Done() <-chan struct{} { return d.ended }

// Err is the reason for which the daemon stopped by itself: the launcher gave up,
// or crashed too often, or ErrMemory. nil while it runs, and after an ordinary stop.
func (d *Daemon) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fatal
}

// Report is the drain report; complete after Done.
func (d *Daemon) Report() DrainReport {
	d.drain.mu.Lock()
	defer d.drain.mu.Unlock()
	return d.drain.report
}

// fail begins an orderly hard stop: the tree cannot go on.
func (d *Daemon) fail(err error) {
	d.mu.Lock()
	if d.fatal == nil {
		d.fatal = err
	}
	d.mu.Unlock()
	go d.beginStop(0) // the caller is a failing actor's goroutine
}

func (d *Daemon) beginStop(timeout time.Duration) {
	// phase and deadline in one step: whoever sees the one reads the other
	d.mu.Lock()
	before := d.state
	if !d.running || before >= phaseStopping {
		if !d.running && (d.asked == nil || timeout < *d.asked) { // Start carries it out
			d.asked = &timeout
		}
		d.mu.Unlock()
		return
	}
	d.state = phaseStopping
	d.drain.on.Store(true)
	d.stoppedAt = time.Now()
	d.until = d.stoppedAt.Add(timeout)
	cause := d.fatal
	d.mu.Unlock()
	if cause != nil && !errchain.Is(cause, ErrMemory) {
		supervised.Tell(func() { logs.Err(d.env.Log.Error(), cause).Msg("the supervision tree gave up: stopping") })
	}
	if before < phaseQuiet {
		d.beginQuiet()
	}
	if cause == nil { // said when it is so: who reads it may push a job that must stay
		supervised.Tell(func() {
			d.env.Log.Info().Float64("timeout_s", timeout.Seconds()).Msg("stop: waiting for running jobs")
		})
	}
	d.events.publish(event.StopBegan{At: d.stoppedAt, Deadline: d.deadline()})
	d.env.System.Send(launcherName, stop{})
	d.hooks.fire("shutdown", reversed(d.cfg.On.Shutdown))
	go d.conduct()
}

// conduct carries the stop out: it waits for the jobs, or for the deadline, and ends the
// daemon. It is a goroutine and no actor, since a stop ends in time whatever actors and
// strategies do.
func (d *Daemon) conduct() {
	ctx, cancel := context.WithDeadline(context.Background(), d.deadline())
	defer cancel()
	if !d.env.Changes.Await(ctx, d.allDrained) {
		d.hardStop()
	}
	d.end()
}

// jobsRunning is how many jobs run, or have failed and are still to be told of.
func (d *Daemon) jobsRunning() int64 {
	n := int64(0)
	for _, c := range d.capsules {
		n += c.pool.busy.Load() + c.pool.collectedJobs() + c.settler.Untold()
	}
	return n
}

// allDrained tells whether every capsule has nothing left to settle.
func (d *Daemon) allDrained() bool {
	if d.jobsRunning() > 0 || !d.deaths.Idle() { // error and death handlers may still run
		return false
	}
	for _, c := range d.capsules {
		if !c.drained() {
			return false
		}
	}
	return true
}

// hardStop ends what still runs.
func (d *Daemon) hardStop() {
	// 1. Nothing may come in any more, in no capsule: two capsules can share a
	// queue, and what one puts back the other must not fetch.
	ctx, cancel := context.WithTimeout(context.Background(), d.patience(requeueTime))
	defer cancel()
	ended := d.env.Changes.Await(ctx, func() bool {
		for _, c := range d.capsules {
			if !c.fetchEnded() {
				return false
			}
		}
		return true
	})
	if !ended {
		supervised.Tell(func() {
			d.env.Log.Error().Msg("a fetch call did not end; what it still takes is left to a rescuer")
		})
	}
	// 2. Requeue before cancelling: a job that runs twice is better than one
	// that is lost. Taking a unit out of the ledger decides its outcome.
	var taken []*work.Item
	requeued := supervised.NewTracker()
	for _, c := range d.capsules {
		ws := c.ledger.SealAndTake()
		taken = append(taken, ws...)
		if len(ws) == 0 {
			continue
		}
		requeued.Add(1)
		go func() {
			defer requeued.Done()
			c.requeue(ws)
		}()
	}
	requeued.Await(ctx, requeued.Idle)
	// 3. Cancel, 4. grace.
	for _, w := range taken {
		w.Job.Interrupt(troupe.ErrShutdown)
	}
	grace, endGrace := context.WithTimeout(context.Background(), d.cfg.Grace)
	defer endGrace()
	d.env.Changes.Await(grace, func() bool {
		return d.jobsRunning() == 0 && !slices.ContainsFunc(d.capsules, func(c *capsule) bool { return c.ledger.Size() > 0 })
	})
	// 5. What is unresponsive is abandoned; its late result will be refused.
	var abandoned []JobRef
	for _, c := range d.capsules {
		for _, w := range c.pool.inHand() {
			abandoned = append(abandoned, w.Job.Ref())
		}
		_, replaced := c.runs.Unresponsive()
		abandoned = append(abandoned, refsOf(replaced)...)
	}
	d.drain.add(func(r *DrainReport) { r.Abandoned = abandoned })
	if len(abandoned) > 0 {
		d.events.publish(event.JobsAbandoned{At: time.Now(), Jobs: abandoned})
	}
}

// patience is how long to wait for Redis: less when it is known to be away, so
// that a stop still ends in the time that platforms allow.
func (d *Daemon) patience(t time.Duration) time.Duration {
	if d.env.Outage.Away() {
		return t / 4
	}
	return t
}
