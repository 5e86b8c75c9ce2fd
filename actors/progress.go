package actors

import (
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/actors/internal/run"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/keys"
)

const (
	// progressEvery is the least time between two writes of progress. The progress of a run is first written when the run has
	// lasted that long.
	progressEvery = time.Second
	// progressAgain is how often progress is written that has not changed: its rate has changed, and Redis may have forgotten it.
	progressAgain = 10 * time.Second
)

// progress is what Redis has of the progress of the running jobs. A crash loses it; then the running jobs are asked again.
// Its fields are guarded by beats.lock.
type progress struct {
	told    chan struct{}        // capacity 1: a run has told something for the first time
	written map[string]time.Time // when, by jid
}

// tell wakes the loop that writes the progress of jobs.
func (p *progress) tell() {
	select {
	case p.told <- struct{}{}:
	default:
	}
}

// progress writes the progress that running jobs have set, as long as some set any.
func (h *heartbeat) progress(l *supervised.Loop) {
	for l.Pause(progressEvery) {
		if h.d.writeProgress() {
			continue
		}
		select {
		case <-h.d.progress.told:
		case <-l.Context.Done():
			return
		}
	}
}

// writeProgress writes what has changed, in one round trip. It tells whether there is more to come. What Redis does not take
// is written the next time.
func (d *Daemon) writeProgress() (more bool) {
	if d.env.Outage.Away() {
		return true
	}
	ctx, cancel := d.env.Call()
	defer cancel()
	d.beats.do(ctx, func() {
		now := time.Now()
		texts, wrote, gone := map[string][]byte{}, map[string]time.Time{}, []string{}
		for _, c := range d.capsules {
			for _, w := range c.pool.inHand() {
				r, ok := w.Job.(*run.Run)
				if !ok {
					continue
				}
				jid, p, changed, ok := r.Progress(now)
				if !ok {
					continue
				}
				at, known := d.progress.written[jid]
				if !known || changed || now.Sub(at) >= progressAgain {
					texts[jid], at = p.JSON(), now
				}
				wrote[jid] = at
			}
		}
		for jid := range d.progress.written {
			if _, still := wrote[jid]; !still {
				gone = append(gone, jid)
			}
		}
		more = len(wrote) > 0
		if len(texts)+len(gone) == 0 {
			return
		}
		var fields []any
		for _, jid := range slices.Sorted(maps.Keys(texts)) { // that a simulation repeats
			fields = append(fields, jid, texts[jid])
		}
		slices.Sort(gone)
		key := keys.Progress(d.env.Identity)
		if _, err := d.env.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
			if len(fields) > 0 {
				p.HSet(ctx, key, fields...)
				p.Expire(ctx, key, beat.Lease)
			}
			if len(gone) > 0 {
				p.HDel(ctx, key, gone...)
			}
			return nil
		}); err != nil {
			d.env.Log.Debug().Str("actor", heart).Err(err).Msg("the progress of jobs was not written")
			d.progress.written, more = map[string]time.Time{}, true
			for jid := range wrote {
				d.progress.written[jid] = time.Time{}
			}
			for _, jid := range gone {
				d.progress.written[jid] = time.Time{}
			}
			return
		}
		d.progress.written = wrote
	})
	return more
}

// countProgress adds what the runs of each class have told to be done, in the order of the registry.
func (d *Daemon) countProgress() []uint64 {
	sums := make([]uint64, len(d.cfg.Registry.Classes()))
	for i, name := range d.cfg.Registry.Classes() {
		for _, c := range d.capsules {
			sums[i] += c.runs.Classes[name].Progressed()
		}
	}
	return sums
}
