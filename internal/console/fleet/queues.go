package fleet

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/keys"
)

// Queue is one of the queues.
type Queue struct {
	Name      string   `json:"name"`
	Waiting   int64    `json:"waiting"`
	Latency   float64  `json:"latency_s"`    // how long the oldest job waits
	In        *float64 `json:"in_per_s"`     // null if it is not known, see Sampler
	Out       *float64 `json:"out_per_s"`    // likewise
	Growth    *float64 `json:"growth_per_s"` // in less out; null at the first look
	Listeners int      `json:"listeners"`    // processes that take from it
	Quiet     int      `json:"quiet"`        // and those that do no more; silent ones are neither
	Paused    bool     `json:"paused"`
}

// Sampler looks at the queues again and again, and so knows their rates. What goes out of a
// queue is known if all that listen are processes of troupe: they count what they take. The
// zero value has looked at none. It is safe for concurrent use.
type Sampler struct {
	mu    sync.Mutex
	at    time.Time
	sizes map[string]int64
	taken map[string]map[string]uint64 // by process, by queue
}

// Queues are all queues, with the rates since the last call: those of Inspector.Queues, and those
// that were paused before anything was pushed to them.
func (s *Sampler) Queues(ctx context.Context, f *Fleet, processes []Process) ([]Queue, error) {
	found, err := f.Inspector.Queues(ctx)
	if err != nil {
		return nil, err
	}
	paused, err := f.Redis.SMembers(ctx, keys.Paused).Result()
	if err != nil {
		return nil, err
	}
	slices.Sort(paused)
	for _, name := range paused {
		if !slices.ContainsFunc(found, func(q inspect.QueueSummary) bool { return q.Name == name }) {
			found = append(found, inspect.QueueSummary{Queue: f.Inspector.Queue(name), Paused: true})
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	span := now.Sub(s.at).Seconds()
	sizes, taken := map[string]int64{}, map[string]map[string]uint64{}
	for _, p := range processes {
		if p.Pulse != nil {
			taken[p.Identity] = p.Pulse.Taken
		}
	}
	all := make([]Queue, 0, len(found))
	for _, q := range found {
		row := Listened(q, processes)
		sizes[q.Name] = q.Size
		if before, ok := s.sizes[q.Name]; ok && span > 0 {
			growth := float64(q.Size-before) / span
			row.Growth = &growth
			if n, ok := s.out(q.Name, processes); ok {
				out := float64(n) / span
				in := max(0, growth+out)
				row.In, row.Out = &in, &out
			}
		}
		all = append(all, row)
	}
	s.at, s.sizes, s.taken = now, sizes, taken
	return all, nil
}

// out is how many jobs were taken from a queue since the last look, if that is known.
func (s *Sampler) out(queue string, processes []Process) (n uint64, known bool) {
	for _, p := range processes {
		if p.Phase == Gone || !p.Takes(queue) {
			continue
		}
		if p.Pulse == nil || p.Pulse.Taken == nil {
			return 0, false
		}
		now, before := p.Pulse.Taken[queue], s.taken[p.Identity][queue]
		n += now - min(now, before)
	}
	return n, true
}

// Listened is a queue with those that listen on it, without its rates.
func Listened(q inspect.QueueSummary, processes []Process) Queue {
	row := Queue{Name: q.Name, Waiting: q.Size, Latency: q.Latency.Seconds(), Paused: q.Paused}
	for _, p := range processes {
		switch {
		case !p.Takes(q.Name):
		case p.Listens():
			row.Listeners++
		case p.Phase == Quiet || p.Phase == Stopping:
			row.Quiet++
		}
	}
	return row
}

// Queue is one queue, or inspect.ErrNotFound if nothing was ever pushed there, nobody listens, and it is
// not paused.
func (f *Fleet) Queue(ctx context.Context, name string) (Queue, error) {
	row, used, err := f.queue(ctx, name)
	if err == nil && !used && !row.Paused {
		err = inspect.ErrNotFound
	}
	return row, err
}

// Used reports whether something was ever pushed to a queue, or somebody listens to it.
func (f *Fleet) Used(ctx context.Context, name string) (bool, error) {
	_, used, err := f.queue(ctx, name)
	return used, err
}

func (f *Fleet) queue(ctx context.Context, name string) (row Queue, used bool, err error) {
	processes, err := f.Processes(ctx)
	if err != nil {
		return row, false, err
	}
	summary, err := f.Inspector.Queue(name).Summary(ctx)
	if err != nil {
		return row, false, err
	}
	row = Listened(summary, processes)
	if row.Listeners+row.Quiet > 0 || row.Waiting > 0 {
		return row, true, nil
	}
	all, err := f.Inspector.Queues(ctx)
	return row, slices.ContainsFunc(all, func(q inspect.QueueSummary) bool { return q.Name == name }), err
}

// ElsewhereError says that a queue belongs to another system than Sidekiq, which keeps it elsewhere.
type ElsewhereError struct{ Queue, System, Process string }

func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("%q is a queue of %s in the process %s, which keeps its jobs at keys of its own: they are not seen here, and no job can be moved there", e.Queue, e.System, e.Process)
}

// Elsewhere says of a queue that Redis does not have as Sidekiq's, and that processes serve for another
// system, where its jobs are: *ElsewhereError; nil of any other one.
func (f *Fleet) Elsewhere(ctx context.Context, name string) error {
	processes, err := f.Processes(ctx)
	if err != nil {
		return err
	}
	for _, p := range processes {
		if system := p.elsewhere(name); system != "" && !slices.ContainsFunc(processes, func(p Process) bool { return p.Takes(name) }) {
			return &ElsewhereError{name, system, p.Identity}
		}
	}
	return nil
}

// Destination looks at a queue that jobs are to be moved to: why that cannot be, or else what to know
// before; "" for nothing.
func (f *Fleet) Destination(ctx context.Context, name string) (warning string, err error) {
	if err := f.Inspector.Queue(name).Takes(); err != nil {
		return "", err
	}
	if err := f.Elsewhere(ctx, name); err != nil {
		return "", err
	}
	kind, err := f.Redis.Type(ctx, keys.Queue(name)).Result()
	if err == nil && kind != "none" && kind != "list" {
		err = fmt.Errorf("the key %q is a %s, expected a list of jobs", keys.Queue(name), kind)
	}
	if err != nil {
		return "", err
	}
	row, used, err := f.queue(ctx, name)
	switch {
	case err != nil:
		return "", err
	case row.Paused:
		return fmt.Sprintf("the queue %q is paused: jobs wait there until it is not", name), nil
	case !used:
		return fmt.Sprintf("no queue %q is known: nothing was ever pushed to it, and no process listens to it", name), nil
	case row.Listeners == 0:
		return fmt.Sprintf("no process takes from the queue %q: jobs wait there until one does", name), nil
	}
	return "", nil
}
