package fetch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

// mend finds out what became of failed calls.
func (f *onCluster) mend(ctx context.Context, doubt bool) error {
	if !doubt { // somebody has been here while we waited
		return nil
	}
	f.rdb.ReloadState(ctx) // after a failover its client would ask dead nodes for seconds
	return f.resume(ctx)
}

var errShut = errors.New("a rescuer has shut the private place")

// mark writes the generation into every private place and returns what calls of
// earlier generations took. A place without a fence is noted as forgotten, unless
// it is new.
func (f *onCluster) mark(ctx context.Context, in *incarnation, lost []lostCall, old bool) ([]Unit, error) {
	evals := make([]*eval, len(f.names))
	for q := range f.names {
		args := []any{in.generation}
		for _, call := range lost {
			if call.queue == q {
				for _, receipt := range receipts(call.prefix, call.n) {
					args = append(args, receipt)
				}
			}
		}
		evals[q] = newEval(clusterMark, in.places[q][1:], args...)
	}
	err := runAll(ctx, f.rdb, evals)
	var units []Unit
	for q, e := range evals {
		reply := e.cmd.Val()
		if e.cmd.Err() != nil {
			continue // in err
		}
		switch reply[0] {
		case "DEAD":
			return nil, errShut
		case "SICK":
			f.sick.report(f.names[q], reply[1])
			continue
		case "LOST":
			f.mu.Lock()
			f.forgotten[q] = old
			f.mu.Unlock()
		}
		for found := reply[1:]; len(found) >= 2; found = found[2:] {
			units = append(units, Unit{
				Queue: f.names[q], Receipt: found[0], Payload: bytesOf(found[1]), Incarnation: in.n, Suspect: isSuspect(found[0]),
			})
		}
	}
	return units, err
}

// resume asks under a new generation what has become of failed calls, and keeps
// what they took for the next Take. What nodes have forgotten is written again.
func (f *onCluster) resume(ctx context.Context) error {
	f.mu.Lock()
	in := f.next()
	lost := slices.Clone(f.lost)
	f.mu.Unlock()

	reply, err := resumeScript.Run(ctx, f.rdb,
		[]string{f.reg.procs, f.reg.leases, in.lease, in.fenced}, in.id, in.generation, f.ttl).StringSlice()
	if err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	switch reply[0] {
	case "FENCED":
		return f.fenced(in)
	case "LOST": // the registry's node has forgotten us, and nobody has fenced us there
		if err := f.enlist(ctx, in); err != nil {
			if redis.HasErrorPrefix(err, "FENCED") {
				return f.fenced(in)
			}
			return fmt.Errorf("register again: %w", err)
		}
	}
	units, err := f.mark(ctx, in, lost, true)
	if errors.Is(err, errShut) {
		return f.fenced(in)
	}
	if err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	if err := f.restore(ctx, in); err != nil {
		return fmt.Errorf("write back what was in progress: %w", err)
	}
	f.mu.Lock()
	for _, u := range units {
		if u.Suspect {
			f.suspects = append(f.suspects, u)
		} else {
			f.stash = append(f.stash, u)
		}
	}
	f.doubt, f.lost = false, nil
	f.mu.Unlock()
	return nil
}

// restore writes what we hold back into the places that were forgotten.
func (f *onCluster) restore(ctx context.Context, in *incarnation) error {
	f.mu.Lock()
	forgotten := slices.Clone(f.forgotten)
	units := slices.Concat(f.stash, f.suspects)
	f.mu.Unlock()
	if !slices.Contains(forgotten, true) {
		return nil
	}
	if f.env.Held != nil {
		units = append(units, f.env.Held()...)
	}
	total := 0
	for q := range f.names {
		if !forgotten[q] {
			continue
		}
		var mine []Unit
		for _, u := range units {
			if f.owns(in, u) && f.index[u.Queue] == q {
				mine = append(mine, u)
			}
		}
		total += len(mine)
		for len(mine) > 0 {
			args, size := []any{in.generation}, 0
			for len(mine) > 0 && len(args) < 2*maxBatch && size < maxBatchBytes {
				args = append(args, mine[0].Receipt, mine[0].Payload)
				size += len(mine[0].Payload)
				mine = mine[1:]
			}
			if err := runAll(ctx, f.rdb, []*eval{newEval(clusterRestore, in.places[q][1:], args...)}); err != nil {
				return err
			}
		}
	}
	f.mu.Lock()
	clear(f.forgotten)
	f.mu.Unlock()
	f.env.Logger.Warn().Str("fetcher", in.id).Int("units", total).
		Msg("a node of redis had lost its data; wrote back what is in progress")
	return nil
}
