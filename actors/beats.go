package actors

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/troupehq/troupe/actors/internal/env"
	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/jitter"
	"github.com/troupehq/troupe/internal/queues"
	"github.com/troupehq/troupe/sched"
)

// beats is the durable half of the heartbeat actor.
type beats struct {
	turn    chan struct{} // held by whoever talks to Redis for the heartbeat: one at a time, and none after the end
	ended   bool          // guarded by turn
	flusher *beat.Flusher // guarded by turn
	counted beat.Counts   // what it has been told of so far; guarded by turn
	metrics *beat.Metrics // flushed in turn; nil if off
	beater  beat.Beater   // guarded by turn
	latency beat.Latency  // guarded by turn
}

func newBeats(identity string, m Metrics) beats {
	return beats{
		turn: make(chan struct{}, 1), flusher: beat.NewFlusher(identity),
		metrics: beat.NewMetrics(identity, m.dialects()),
	}
}

// do runs f in its turn; false when ctx ended first or the process has left.
func (b *beats) do(ctx context.Context, f func()) bool {
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	defer func() { <-b.turn }()
	if b.ended {
		return false
	}
	f()
	return true
}

// beatOnce flushes the statistics and shows this process and its jobs.
func (d *Daemon) beatOnce() (result beat.Result, err error) {
	ctx, cancel := d.env.Call()
	defer cancel()
	part := heart
	d.beats.do(ctx, func() {
		if err = d.flush(ctx); err != nil {
			return
		}
		state := d.beatState()
		if state.Tree, err = json.Marshal(d.Tree()); err != nil {
			return
		}
		result, err = d.beats.beater.Beat(ctx, d.env.Redis, state)
		if err != nil {
			return
		}
		if d.beats.latency.Slow(result.RTT) {
			d.env.Log.Warn().Str("actor", part).Int64("rtt_us", result.RTT.Microseconds()).
				Msg("redis is slow: the last five round trips took over 50 ms; is the network or the CPU overloaded?")
		}
	})
	if err != nil {
		d.env.Outage.Failed(part, err)
		return result, err
	}
	d.env.Outage.OK(part)
	return result, nil
}

// flush writes the counters and the job metrics; what fails is kept for the next time.
func (d *Daemon) flush(ctx context.Context) error {
	var n beat.Counts
	for _, c := range d.capsules {
		n.Processed += int64(c.runs.Processed.Load())
		n.Failed += int64(c.runs.Failed.Load())
	}
	last := d.beats.counted
	d.beats.counted = n
	n.Processed, n.Failed = n.Processed-last.Processed, n.Failed-last.Failed
	now := time.Now()
	if err := d.beats.flusher.Flush(ctx, d.env.Redis, n, now); err != nil {
		return err
	}
	err := d.beats.metrics.Flush(ctx, d.env.Redis, now)
	if refused, ok := errors.AsType[*beat.RefusedError](err); ok { // a beat does not fail for this
		d.env.Log.Debug().Str("actor", launcherName+"/heartbeat").Err(refused).Msg("job metrics are not written in full")
		return nil
	}
	return err
}

func (d *Daemon) beatState() beat.State {
	s := beat.State{Info: d.info, Now: time.Now(), Quiet: d.quieting.Load(), RSS: beat.RSS(), WorkersKey: d.cfg.WorkersKey}
	for _, c := range d.capsules {
		for i, w := range c.working() {
			ref := refOf(w)
			if ref.Started.IsZero() {
				continue
			}
			s.Work = append(s.Work, beat.Work{
				TID: c.cfg.Name + "-" + strconv.Itoa(i), Queue: w.Unit.Queue, Payload: w.Unit.Payload, RunAt: ref.Started,
			})
		}
	}
	return s
}

// beatInfo is what never changes about this process.
func (d *Daemon) beatInfo(hostname string, pid int) beat.Info {
	info := beat.Info{
		Hostname: hostname, PID: pid, Identity: d.env.Identity, StartedAt: time.Now(), Tag: d.cfg.Tag,
		Labels: d.cfg.Labels, Version: d.cfg.Version, Embedded: d.cfg.Embedded,
	}
	for _, c := range d.capsules {
		q := c.cfg.Queues
		info.Capsules = append(info.Capsules, beat.Capsule{
			Name: c.cfg.Name, Concurrency: c.cfg.Concurrency,
			Mode: queues.Mode(q), Queues: queues.Names(q), Weights: queues.Weights(q),
		})
	}
	return info
}

// lastBeat flushes what is left and leaves the list of processes. The heartbeat
// actor has stopped: nobody registers this process again.
func (d *Daemon) lastBeat(ctx context.Context) {
	d.beats.do(ctx, func() {
		d.beats.ended = true
		if err := d.flush(ctx); err != nil {
			d.env.Log.Warn().Err(err).Int64("processed", d.beats.flusher.Held().Processed).
				Int64("failed", d.beats.flusher.Held().Failed).Msg("the last statistics could not be written")
		}
		if err := beat.Clear(ctx, d.env.Redis, d.env.Identity); err != nil {
			d.env.Log.Warn().Err(err).Msg("could not leave the list of processes; it forgets this one in a minute")
		}
	})
}

// initialPollWait and pollWait are Sidekiq's spread of the pollers of a fleet.
func (d *Daemon) initialPollWait() time.Duration {
	return jitter.FirstPoll(d.cfg.PollInterval, jitter.Rand(d.env.Identity, "poll"))
}

func (d *Daemon) pollWait(processes int) time.Duration {
	return jitter.PollInterval(max(processes, 1), d.cfg.PollInterval, d.cfg.PollIntervalPerProcess, jitter.Rand(d.env.Identity, "poll"))
}

// cleanUp takes dead processes off the list, if nobody else has lately.
func (d *Daemon) cleanUp(ctx context.Context) {
	call, cancel := env.Within(ctx)
	defer cancel()
	if _, err := beat.Cleanup(call, d.env.Redis); err != nil && ctx.Err() == nil {
		d.env.Outage.Failed(pollerPart, err)
	}
}

// processes counts those of the fleet for the interval of the polls; 0 if it cannot:
// an outage shows in the promotions, and a user may lack the right.
func (d *Daemon) processes(ctx context.Context) int {
	call, cancel := env.Within(ctx)
	defer cancel()
	n, err := d.sched.Processes(call)
	if err == nil {
		d.env.Outage.OK(pollerPart)
	}
	return n
}

// promote moves one batch of due members of set.
func (d *Daemon) promote(ctx context.Context, set string) (sched.Promoted, bool) {
	got, err := d.sched.Promote(ctx, set)
	// A part of its own for each set: where Redis only refuses writes, the look at
	// an empty set succeeds, and must not ring for the other one again and again.
	part := pollerPart + "/" + set
	if err != nil {
		if ctx.Err() == nil {
			d.env.Outage.Failed(part, err)
		}
		return got, false
	}
	d.env.Outage.OK(part)
	if got.Dead > 0 || got.Dropped > 0 {
		d.env.Log.Warn().Str("actor", part).Str("set", set).Int("dead", got.Dead).Int("dropped", got.Dropped).
			Msg("members of the set were no jobs (moved to the dead set as they are), or stopped by client middleware")
	}
	return got, true
}
