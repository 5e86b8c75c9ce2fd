package actors

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/troupehq/troupe/actors/internal/run"
	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/words"
)

// beats is the durable half of the heartbeat actor.
type beats struct {
	lock    chan struct{} // held by whoever talks to Redis for the heartbeat: one at a time, and none after the end
	ended   bool          // guarded by lock
	metrics *beat.Metrics // flushed with lock held; nil if off
	beater  beat.Beater   // guarded by lock
	latency beat.Latency  // guarded by lock
	rtt     atomic.Int64  // of the last beat, in ns
}

// dialects are the values of Config.Metrics. Sidekiq 7 and 8 keep the same numbers under
// different keys; 6 has no such page.
var dialects = map[string]beat.Dialects{
	"": beat.Dialect7 | beat.Dialect8, "both": beat.Dialect7 | beat.Dialect8, "7": beat.Dialect7, "8": beat.Dialect8, "off": 0,
}

// init makes the beats of d, which writes the job metrics of these dialects.
func (b *beats) init(d *Daemon) {
	b.lock = make(chan struct{}, 1)
	d.progress.told = make(chan struct{}, 1)
	b.metrics = beat.NewMetrics(d.env.Identity, dialects[d.cfg.Metrics], d.classTotals)
}

// do runs f with the lock held; false when ctx ended first or the process has left.
func (b *beats) do(ctx context.Context, f func()) bool {
	select {
	case b.lock <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	defer func() { <-b.lock }()
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
		v := d.view()
		tree := v.Tree()
		if state.Tree, err = json.Marshal(tree); err != nil {
			return
		}
		pulse := v.Pulse(tree, &d.events.recorder)
		pulse.Version, pulse.Tag, pulse.Elsewhere = Version, words.Text(d.cfg.Tag), d.elsewhere()
		state.Pulse = pulse.JSON()
		result, err = d.beats.beater.Beat(ctx, d.env.Redis, state)
		if err != nil {
			return
		}
		d.beats.rtt.Store(int64(result.RTT))
		if err = d.events.recorder.Write(ctx, d.env.Redis, d.env.Identity); err != nil {
			return
		}
		if d.beats.latency.Slow(result.RTT) {
			d.env.Log.Warn().Str("actor", part).Int64("rtt_us", result.RTT.Microseconds()).
				Msg("redis is slow: the last five round trips took over 50 ms; is the network or the CPU overloaded?")
		}
	})
	if err != nil {
		d.env.Outage.Failed(part, err)
	} else {
		d.env.Outage.OK(part)
	}
	d.renewLocks(ctx)
	d.keepLimits(ctx)
	return result, err
}

// renewLocks renews the locks of the unique jobs that run.
func (d *Daemon) renewLocks(ctx context.Context) {
	var locks []*job.Lock
	for _, c := range d.capsules {
		for _, w := range c.pool.inHand() {
			if r, ok := w.Job.(*run.Run); ok {
				if lock := r.Lock(); lock != nil {
					locks = append(locks, lock)
				}
			}
		}
	}
	slices.SortFunc(locks, func(a, b *job.Lock) int { return cmp.Compare(a.Key, b.Key) }) // that a simulation repeats
	const part = heart + "/locks"
	if err := job.RenewLocks(ctx, d.env.Redis, locks); err != nil {
		d.env.Outage.Failed(part, err)
		return
	}
	d.env.Outage.OK(part)
}

// maxShown is how many jobs of a capsule a beat shows, collected ones among them: those that have a slot are shown in any case.
const maxShown = 1000

// noteBeat notes that a beat is over.
func (d *Daemon) noteBeat(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.beatAt = time.Now()
	d.registered = d.registered || err == nil
}

// flush writes the counters and the job metrics to Redis. It keeps those that Redis has not taken for the next call.
func (d *Daemon) flush(ctx context.Context) error {
	now := time.Now()
	for _, s := range d.systems {
		if err := s.flush(ctx, now); err != nil {
			return err
		}
	}
	err := d.beats.metrics.Flush(ctx, d.env.Redis, now)
	if refused, ok := errors.AsType[*beat.RefusedError](err); ok { // a beat does not fail for this
		d.env.Log.Debug().Str("actor", launcherName+"/heartbeat").Err(refused).Msg("job metrics are not written in full")
		return nil
	}
	return err
}

func (d *Daemon) beatState() beat.State {
	d.mu.Lock()
	info := d.info
	d.mu.Unlock()
	s := beat.State{Info: info, Now: time.Now(), Quiet: d.quieting.Load(), RSS: beat.RSS(), WorkersKey: d.cfg.WorkersKey}
	for _, sys := range d.systems {
		if sys.wire.Beat != nil {
			s.Extra = sys.wire.Beat
		}
	}
	for _, c := range d.capsules {
		for i, w := range c.pool.inHand() {
			ref := w.Job.Ref()
			r, ok := w.Job.(*run.Run)
			if ref.Started.IsZero() || !ok || w.left && i >= maxShown {
				continue
			}
			tid := c.cfg.Name + "-" + strconv.Itoa(w.slot.index)
			if w.left {
				tid += "-" + ref.JID
			}
			s.Work = append(s.Work, beat.Work{
				TID: tid, Queue: w.Unit.Queue, Payload: r.Shown(), RunAt: ref.Started,
			})
		}
	}
	return s
}

// beatInfo returns what a beat has about this process besides its state.
func (d *Daemon) beatInfo(hostname string, pid int) beat.Info {
	return beat.Info{
		Hostname: hostname, PID: pid, Identity: d.env.Identity, StartedAt: time.Now(), Tag: d.cfg.Tag,
		Labels: d.cfg.Labels, Version: d.cfg.Version, Embedded: d.cfg.Embedded, Capsules: d.capsuleInfo(),
	}
}

// capsuleInfo is what a beat tells of the capsules.
func (d *Daemon) capsuleInfo() (all []beat.Capsule) {
	for _, c := range d.capsules {
		cfg := c.config()
		q := cfg.Queues
		all = append(all, beat.Capsule{
			Name: cfg.Name, Concurrency: cfg.Concurrency,
			Mode: q.List().Mode(), Queues: q.List().Names(), Weights: q.List().Weights(),
		})
	}
	return all
}

// lastBeat flushes what is left and leaves the list of processes. The heartbeat
// actor has stopped: nobody registers this process again.
func (d *Daemon) lastBeat(ctx context.Context) {
	d.beats.do(ctx, func() {
		d.beats.ended = true
		if err := d.flush(ctx); err != nil {
			var pending beat.Counts
			for _, s := range d.systems {
				h := s.flusher.Pending()
				pending.Processed, pending.Failed = pending.Processed+h.Processed, pending.Failed+h.Failed
			}
			d.env.Log.Warn().Err(err).Int64("processed", pending.Processed).
				Int64("failed", pending.Failed).Msg("the last statistics could not be written")
		}
		if err := d.events.recorder.Write(ctx, d.env.Redis, d.env.Identity); err != nil {
			d.env.Log.Warn().Err(err).Msg("the last events could not be written")
		}
		if err := beat.Clear(ctx, d.env.Redis, d.env.Identity); err != nil {
			d.env.Log.Warn().Err(err).Msg("could not leave the list of processes; it forgets this one in a minute")
		}
	})
}
