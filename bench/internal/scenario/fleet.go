package scenario

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/troupehq/troupe/bench/internal/contender"
	"github.com/troupehq/troupe/bench/internal/proc"
	"github.com/troupehq/troupe/bench/internal/progress"
)

// patience is how long anything may take before a measurement is given up; it
// fails nothing that only is slow.
const patience = 10 * time.Minute

// fleet is the worker processes of a measurement.
type fleet struct {
	progress *progress.Progress
	procs    []*proc.Process
}

// fleet starts n processes of c that work on st, or at addr if that is not "".
func (l *Lab) fleet(c contender.Contender, st *store, addr string, w contender.Work, n, samples int) (*fleet, error) {
	l.starts++
	b, err := progress.Create(filepath.Join(l.dir, fmt.Sprintf("progress-%d", l.starts)), samples)
	if err != nil {
		return nil, err
	}
	w.Progress, w.Log = b.Path, filepath.Join(l.dir, fmt.Sprintf("jobs-%d.log", l.starts))
	if w.Queues == nil {
		w.Queues = []contender.Queue{{Name: "default"}}
	}
	if st.redis != nil {
		if w.Redis = st.redis.Addr; addr != "" {
			w.Redis = addr
		}
	} else {
		w.Postgres = st.pg.URL(st.database)
	}
	f := &fleet{progress: b}
	for i := range n {
		cmd, err := c.Worker(w)
		if err == nil {
			var p *proc.Process
			if p, err = proc.Start(cmd, l.dir, fmt.Sprintf("%s-%d-%d", c.Name, l.starts, i)); err == nil {
				f.procs = append(f.procs, p)
			}
		}
		if err != nil {
			f.stop()
			return nil, err
		}
	}
	return f, nil
}

// stop kills the processes: what follows a measurement is not part of it.
func (f *fleet) stop() {
	for _, p := range f.procs {
		p.Kill()
	}
	f.progress.Close()
}

// cpu is the processor time that all of them have used.
func (f *fleet) cpu() (total time.Duration) {
	for _, p := range f.procs {
		total += proc.CPU(p.PID())
	}
	return total
}

// peak is the most memory that one of them has had resident, in MB.
func (f *fleet) peak() (mb float64) {
	for _, p := range f.procs {
		mb = max(mb, float64(proc.PeakRSS(p.PID()))/(1<<20))
	}
	return mb
}

// until waits for a condition that is looked at each step, and fails if a worker
// has ended.
func (f *fleet) until(ctx context.Context, step time.Duration, what string, ok func() (bool, error)) error {
	tick := time.NewTicker(step)
	defer tick.Stop()
	looked := time.Now()
	for deadline := looked.Add(patience); ; {
		if done, err := ok(); done || err != nil {
			return err
		}
		now := time.Now()
		if now.Sub(looked) > time.Second {
			looked = now
			for _, p := range f.procs {
				if err := p.Ended(); err != nil {
					return err
				}
			}
		}
		if now.After(deadline) {
			return fmt.Errorf("%s: not in %s, %d jobs done: %s", what, patience, f.progress.Done(), f.procs[0].Tail())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// ready waits until all processes have started.
func (f *fleet) ready(ctx context.Context, n int) error {
	return f.until(ctx, 10*time.Millisecond, "workers start", func() (bool, error) { return f.progress.ReadyCount() >= int64(n), nil })
}

// pause lets d pass.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
