package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/troupehq/troupe/bench/internal/contender"
	"github.com/troupehq/troupe/bench/internal/meter"
	"github.com/troupehq/troupe/bench/internal/proxy"
	"github.com/troupehq/troupe/bench/internal/result"
)

// drain is one measurement: a full store, workers that start, and the time from
// the first job that ended to the last that was settled.
type drain struct {
	scenario string
	kase     string
	c        contender.Contender
	load     contender.Load
	work     contender.Work
	procs    int           // 0 means 1
	proxied  bool          // the workers reach the store through a proxy
	delay    time.Duration // that adds so much to each direction
	count    bool          // count client commands and allocations; the rate means nothing then
	failing  bool          // the end is when every job is stored for another try
}

// total is how many jobs run: those of the load, and those that they push.
func (d drain) total() int64 { return int64(d.load.Jobs * (1 + d.load.Fan)) }

// outcome is what a drain was seen to do.
type outcome struct {
	jobs, rate, workerUS, storeUS, trips, commands, calls, allocs, refused, rss float64
}

// note adds an outcome to the row of its drain.
func (l *Lab) note(d drain, o outcome) *result.Row {
	row := l.Set.Row(d.scenario, d.kase, d.c.Name, d.load.Jobs)
	if d.count {
		row.Add(result.Commands, o.commands)
		row.Add(result.Calls, o.calls)
		if o.allocs > 0 {
			row.Add(result.Allocs, o.allocs)
		}
		l.say("%-12s %-27s %-12s %s commands/job", d.scenario, d.kase, d.c.Name, result.Format(o.commands))
		return row
	}
	row.Add(result.Rate, o.rate)
	row.Add(result.WorkerUS, o.workerUS)
	row.Add(result.StoreUS, o.storeUS)
	row.Add(result.RSS, o.rss)
	if d.work.AtOnce > 0 && !d.c.Postgres {
		row.Add(result.Refused, o.refused)
	}
	if !d.c.Postgres {
		row.Add(result.Trips, o.trips)
	}
	l.say("%-12s %-27s %-12s %s jobs/s", d.scenario, d.kase, d.c.Name, result.Format(o.rate))
	return row
}

// rounds runs all drains in turn, as often as the size says. Each round begins
// with another one, so that none always follows the same.
func (l *Lab) rounds(ctx context.Context, drains []drain) error {
	for round := range l.Size.Rounds {
		for i := range drains {
			d := drains[(i+round)%len(drains)]
			o, err := l.measure(ctx, d)
			if err != nil {
				return fmt.Errorf("%s, %s, %s: %w", d.scenario, d.kase, d.c.Name, err)
			}
			l.note(d, o)
		}
	}
	return nil
}

// measure carries out one drain.
func (l *Lab) measure(ctx context.Context, d drain) (o outcome, err error) {
	st, err := l.open(ctx, d.c.Format, d.load)
	if err != nil {
		return o, err
	}
	defer st.close()
	addr := ""
	if d.proxied {
		p, err := proxy.Start(ctx, st.redis.Addr, d.delay)
		if err != nil {
			return o, err
		}
		defer p.Close()
		addr = p.Addr
	}
	var watch *meter.Monitor
	if d.count {
		if watch, err = meter.Watch(ctx, st.redis.Addr, st.redis.Mine); err != nil {
			return o, err
		}
	}
	f, err := l.fleet(d.c, st, addr, d.work, max(1, d.procs), 0)
	if err != nil {
		return o, err
	}
	defer f.stop()
	if d.count {
		f.progress.SetTarget(d.total())
	}

	err = f.until(ctx, time.Millisecond/2, "first job", func() (bool, error) { return f.progress.Done() > 0, nil })
	if err != nil {
		return o, err
	}
	first := l.reading(ctx, st, f, watch)
	err = f.until(ctx, 2*time.Millisecond, "all jobs", func() (bool, error) { return f.progress.Done() >= d.total(), nil })
	if err != nil {
		return o, err
	}
	err = f.until(ctx, time.Millisecond, "all settled", func() (bool, error) { return d.settled(ctx, st.Store) })
	if err != nil {
		return o, err
	}
	end := time.Now()
	last := l.reading(ctx, st, f, watch)
	last.at = end
	if last.err != nil || first.err != nil {
		return o, fmt.Errorf("read the store: %w, %w", first.err, last.err)
	}
	if ran := f.progress.Done(); ran != d.total() {
		return o, fmt.Errorf("%d jobs ran, expected %d", ran, d.total())
	}
	o = last.since(first)
	o.rss, o.allocs = f.peak(), f.progress.Allocs()
	o.refused = float64(f.progress.Refused()) / float64(d.total())
	if watch != nil {
		return o, watch.Close()
	}
	return o, nil
}

func (d drain) settled(ctx context.Context, st contender.Store) (bool, error) {
	left, err := d.c.Left(ctx, st)
	if err != nil || left > 0 || !d.failing {
		return left == 0, err
	}
	failed, err := d.c.Failed(ctx, st)
	return failed == int64(d.load.Jobs), err
}

// reading is the state of everything at one moment.
type reading struct {
	at       time.Time
	done     int64
	worker   time.Duration
	store    meter.Info
	commands map[string]int64 // sent by clients, by name
	err      error
}

func (l *Lab) reading(ctx context.Context, st *store, f *fleet, watch *meter.Monitor) (r reading) {
	if watch != nil {
		r.err = watch.Sync(ctx, st.Redis)
		r.commands = watch.Commands()
	}
	if r.err == nil {
		r.store, r.err = st.usage(ctx)
	}
	r.worker = f.cpu()
	r.done, r.at = f.progress.Done(), time.Now()
	return r
}

// since is what happened between two readings, per job or second.
func (r reading) since(first reading) (o outcome) {
	o.jobs = float64(max(r.done-first.done, 1))
	store := r.store.Sub(first.store)
	o.rate = o.jobs / r.at.Sub(first.at).Seconds()
	o.workerUS = (r.worker - first.worker).Seconds() * 1e6 / o.jobs
	o.storeUS = store.CPU.Seconds() * 1e6 / o.jobs
	o.trips = float64(store.Reads) / o.jobs
	o.calls = float64(store.Calls) / o.jobs
	o.commands = float64(total(r.commandsSince(first))) / o.jobs
	return o
}

// commandsSince is what clients have sent between two readings.
func (r reading) commandsSince(first reading) map[string]int64 {
	since := map[string]int64{}
	for name, n := range r.commands {
		if n -= first.commands[name]; n > 0 {
			since[name] = n
		}
	}
	return since
}

func total(commands map[string]int64) (n int64) {
	for _, calls := range commands {
		n += calls
	}
	return n
}
