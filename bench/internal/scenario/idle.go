package scenario

import (
	"context"
	"fmt"

	"github.com/troupehq/troupe/bench/internal/contender"
	"github.com/troupehq/troupe/bench/internal/meter"
	"github.com/troupehq/troupe/bench/internal/result"
)

// idle is a case of processes without work.
type idle struct {
	kase    string
	c       contender.Contender
	work    contender.Work
	procs   int
	waiting int // jobs that are scheduled and not due
}

// watched is an idle case that has been started.
type watched struct {
	idle
	st    *store
	f     *fleet
	watch *meter.Monitor
	first reading
}

// runIdle watches processes that have nothing to do: all cases at the same time,
// each on a Redis of its own, since who sleeps is in nobody's way. There is one
// round; the time is what makes it exact.
func runIdle(ctx context.Context, l *Lab) error {
	var all []*watched
	defer func() {
		for _, w := range all {
			w.close()
		}
	}()
	for _, k := range l.idleCases() {
		w := &watched{idle: k}
		all = append(all, w)
		if err := l.startIdle(ctx, w); err != nil {
			return fmt.Errorf("idle %s, %s: %w", k.c.Name, k.kase, err)
		}
	}
	// what is done once after the start is not the price of waiting
	if err := pause(ctx, l.Size.Warm); err != nil {
		return err
	}
	for _, w := range all {
		w.first = l.reading(ctx, w.st, w.f, w.watch)
	}
	if err := pause(ctx, l.Size.Idle); err != nil {
		return err
	}
	for _, w := range all {
		if err := l.noteIdle(ctx, w); err != nil {
			return fmt.Errorf("idle %s, %s: %w", w.c.Name, w.kase, err)
		}
	}
	return nil
}

func (l *Lab) idleCases() (cases []idle) {
	for _, c := range l.contenders("troupe", "brpop", "asynq", "sidekiq") {
		one := idle{kase: "one queue", c: c, work: contender.Work{Concurrency: 10}, procs: 1}
		cases = append(cases, one)
		if c.Name != result.Reference {
			continue
		}
		many := one
		many.kase = "30 queues"
		for i := range 30 {
			many.work.Queues = append(many.work.Queues, contender.Queue{Name: fmt.Sprintf("q%02d", i), Weight: 1 + i%3})
		}
		waiting := one
		waiting.kase, waiting.waiting = "one queue, "+result.Count(l.Size.Waiting)+" scheduled", l.Size.Waiting
		herd := one
		herd.procs = l.Size.Processes[len(l.Size.Processes)-1]
		herd.kase = plural(herd.procs, "process", "processes")
		fleet := one
		const processes = 4
		fleet.kase, fleet.procs = "fleet of "+result.Count(l.Size.Fleet)+" daemons", processes
		fleet.work = contender.Work{Concurrency: 1, Daemons: l.Size.Fleet / processes}
		cases = append(cases, many, waiting, herd, fleet)
	}
	return cases
}

func (k idle) daemons() int { return k.procs * max(1, k.work.Daemons) }

func (l *Lab) startIdle(ctx context.Context, w *watched) (err error) {
	load := contender.Load{Jobs: w.waiting, Queues: oneQueue, Waiting: w.waiting > 0}
	if w.st, err = l.open(ctx, w.c.Format, load); err != nil {
		return err
	}
	if w.f, err = l.fleet(w.c, w.st, "", w.work, w.procs, 0); err != nil {
		return err
	}
	if err := w.f.ready(ctx, w.daemons()); err != nil {
		return err
	}
	if w.work.Daemons > 0 {
		return nil // MONITOR would cost the store as much as the fleet does
	}
	w.watch, err = meter.Watch(ctx, w.st.redis.Addr, w.st.redis.Mine)
	return err
}

func (l *Lab) noteIdle(ctx context.Context, w *watched) error {
	last := l.reading(ctx, w.st, w.f, w.watch)
	if w.first.err != nil || last.err != nil {
		return fmt.Errorf("read the store: %w, %w", w.first.err, last.err)
	}
	used := last.store.Sub(w.first.store)
	seconds := last.at.Sub(w.first.at).Seconds()
	each := seconds * float64(w.daemons())
	const own = 2 // reads of the driver between the two readings
	row := l.Set.Row(result.Idle, w.kase, w.c.Name, w.waiting)
	row.Add(result.TripsS, float64(max(0, used.Reads-own))/each)
	row.Add(result.CallsS, float64(max(0, used.Calls-own))/each)
	if w.watch != nil {
		row.Add(result.CommandsS, float64(total(last.commandsSince(w.first)))/each)
	}
	row.Add(result.WorkerPct, 100*(last.worker-w.first.worker).Seconds()/each)
	row.Add(result.StorePct, 100*used.CPU.Seconds()/seconds)
	row.Add(result.RSS, w.f.peak())
	l.say("%-12s %-27s %-12s %s trips/s", result.Idle, w.kase, w.c.Name, result.Format(row.Median(result.TripsS)))
	return nil
}

func (w *watched) close() {
	if w.watch != nil {
		_ = w.watch.Close()
	}
	if w.f != nil {
		w.f.stop()
	}
	if w.st != nil {
		w.st.close()
	}
}
