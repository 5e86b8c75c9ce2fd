package fetch

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// Take acks and takes; see Fetcher. There is one script call per queue, all side
// by side. The first round asks for what a queue is to give first and learns how
// much is left in each; a second one, if need be, asks for what is missing where
// there is some: so strict order and weights hold as on one server. Each may bring its part of
// the bytes; what a queue has left for want of them, the first round tells, and the second asks for.
func (f *onCluster) Take(ctx context.Context, n int, acks []Unit) ([]Unit, error) {
	var units []Unit
	err := f.call(ctx, "take", func(in *incarnation) error {
		f.mu.Lock()
		ask := min(max(n-len(f.stash), 0), maxTake)
		t := &taking{f: f, in: in, ask: ask, bytes: f.env.bytes(), wasPaused: f.paused}
		due := time.Since(f.renewed) > f.env.Lease/6
		f.mu.Unlock()
		if due {
			if err := f.renew(ctx, in); err != nil {
				return err
			}
		}
		if ask > 0 || len(acks) > 0 {
			if err := t.run(ctx, acks); err != nil {
				return err
			}
		}
		units = f.hand(in, n, t.units)
		f.answered(t.calls...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return units, nil
}

// taking is one Take under way.
type taking struct {
	f         *onCluster
	in        *incarnation
	ask       int
	bytes     int // of payloads that it may bring yet
	wasPaused []bool
	units     []Unit
	left      []int // in each queue, after the first round
	got       []int
	calls     []string // their prefixes
}

// run makes the calls. Should one fail, all of them count as lost: the resume finds what
// the others took, and of what was given back to a paused queue that which is still there.
func (t *taking) run(ctx context.Context, acks []Unit) error {
	f := t.f
	var wants []Want
	if t.ask > 0 {
		wants = f.plan(t.ask)
	}
	t.left, t.got = make([]int, len(f.names)), make([]int, len(f.names))
	acked := make([][]any, len(f.names))
	for i := range acks {
		if f.owns(t.in, acks[i]) { // else a rescuer has it
			q := f.index[acks[i].Queue]
			acked[q] = append(acked[q], &acks[i].Receipt)
		}
	}
	plan := make([]int, len(f.names))
	free := t.ask
	for _, want := range wants {
		if q, ok := f.index[want.Queue]; ok && !t.wasPaused[q] {
			plan[q] = min(want.N, free)
			free -= plan[q]
		}
	}
	paused, err := t.round(ctx, plan, acked, true)
	if err != nil || t.ask == 0 {
		return err
	}
	if err := t.unpaused(ctx, paused); err != nil {
		return err
	}
	if missing := t.ask - len(t.units); missing > 0 && t.bytes > 0 {
		if plan, some := t.spill(wants, paused, missing); some {
			_, err = t.round(ctx, plan, nil, false)
		}
	}
	return err
}

// spill divides what is missing among the queues that have jobs left, as
// Queues.Wants tells it.
func (t *taking) spill(wants []Want, paused []bool, missing int) (plan []int, some bool) {
	plan = make([]int, len(t.f.names))
	for pass := range 2 {
		for _, want := range wants {
			q, ok := t.f.index[want.Queue]
			if !ok || paused[q] {
				continue
			}
			more := min(t.left[q]-plan[q], missing)
			if pass == 0 {
				more = min(more, want.N-t.got[q])
			}
			if more = max(more, 0); more > 0 {
				some = true
			}
			plan[q] += more
			missing -= more
		}
	}
	return plan, some
}

// round runs one script per queue that is to give or to forget something, or
// that is to be looked at, and asks beside it which queues are paused.
func (t *taking) round(ctx context.Context, plan []int, acked [][]any, first bool) (paused []bool, err error) {
	f := t.f
	prefixes := make([]string, len(f.names))
	var evals []*eval
	var queues []int
	asked := 0
	for _, n := range plan {
		asked += n
	}
	f.mu.Lock()
	for q := range f.names {
		look := first && t.ask > 0
		if plan[q] == 0 && (acked == nil || len(acked[q]) == 0) && !look {
			continue
		}
		prefixes[q] = f.asks(t.in, "", q)
		t.calls = append(t.calls, prefixes[q])
		args := []any{t.in.generation, prefixes[q], plan[q], max(1, t.bytes*plan[q]/max(1, asked))}
		if acked != nil {
			args = append(args, acked[q]...)
		}
		evals = append(evals, newEval(clusterTake, t.in.places[q], args...))
		queues = append(queues, q)
	}
	f.mu.Unlock()
	var others []redis.Cmder
	smismember := redis.NewBoolSliceCmd(ctx, append([]any{"smismember", keys.Paused}, anyNames(f.names)...)...)
	if first && t.ask > 0 {
		others = append(others, smismember)
	}
	err = runAll(ctx, f.rdb, evals, others...)
	if err != nil {
		return nil, err
	}
	for i, q := range queues {
		t.read(q, prefixes[q], evals[i].cmd.Val())
	}
	if others != nil {
		paused, err = f.pausedQueues(smismember)
	}
	return paused, err
}

// read takes over what one script brought.
func (t *taking) read(q int, prefix string, reply []string) {
	f := t.f
	t.left[q] = atoi(reply[0])
	if reply[1] != "" {
		f.sick.report(f.names[q], reply[1])
	}
	jobs := reply[2:]
	for _, job := range jobs {
		t.bytes -= len(job)
	}
	t.got[q] += len(jobs)
	for i, receipt := range receipts(prefix, len(jobs)) {
		t.units = append(t.units, Unit{Queue: f.names[q], Payload: bytesOf(jobs[i]), Receipt: receipt, Incarnation: t.in.n})
	}
}

// readPaused reads which queues are paused. A key of another type pauses nothing.
func (f *onCluster) readPaused(asked *redis.BoolSliceCmd) ([]bool, error) {
	paused, err := asked.Result()
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		paused, err = make([]bool, len(f.names)), nil
	}
	return paused, err
}

// pausedQueues is readPaused for a take, which passes it on to those that wait.
func (f *onCluster) pausedQueues(asked *redis.BoolSliceCmd) ([]bool, error) {
	paused, err := f.readPaused(asked)
	if err != nil {
		return nil, err
	}
	var list []int
	for q := range paused {
		if paused[q] {
			list = append(list, q)
		}
	}
	f.mu.Lock()
	f.paused = paused
	f.mu.Unlock()
	f.peeks.pause(list)
	return paused, nil
}

// unpaused gives back at once what came from a queue that was paused: the set of
// paused queues is in another slot, so the same round asks for both.
func (t *taking) unpaused(ctx context.Context, paused []bool) error {
	var back []Move
	units := t.units[:0:0]
	for _, u := range t.units {
		if paused[t.f.index[u.Queue]] {
			back = append(back, Move{Unit: u, To: ToQueue})
		} else {
			units = append(units, u)
		}
	}
	t.units = units
	if len(back) == 0 {
		return nil
	}
	return t.f.settleMoves(ctx, t.in, back, make([]Result, len(back)))
}

func anyNames(names []string) []any {
	out := make([]any, len(names))
	for i, name := range names {
		out[i] = name
	}
	return out
}
