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
	for doubt {
		var err error
		if doubt, err = f.resume(ctx); err != nil {
			return err
		}
	}
	return nil
}

var errShut = errors.New("a rescuer has shut the private place")

// mark writes the generation into every private place and adopts what calls of
// earlier generations took: one page of each, it tells whether there is more. A place
// without a fence is noted as forgotten, unless it is new.
func (f *onCluster) mark(ctx context.Context, in *incarnation, old bool) (more bool, err error) {
	evals := make([]*eval, len(f.names))
	f.mu.Lock()
	for q := range f.names {
		args := f.lostArgs([]any{in.generation, f.page.bytes()/len(f.names) + 1}, q)
		evals[q] = newEval(clusterMark, in.places[q][1:], args...)
	}
	f.mu.Unlock()
	err = runAll(ctx, f.rdb, evals)
	f.page.note(err)
	for q, e := range evals {
		reply := e.cmd.Val()
		if e.cmd.Err() != nil {
			continue // in err
		}
		switch reply[0] {
		case "DEAD":
			return false, errShut
		case "SICK":
			f.sick.report(f.names[q], reply[1])
			continue
		}
		more = more || reply[1] != ""
		var units []Unit
		for found := reply[2:]; len(found) >= 2; found = found[2:] {
			units = append(units, Unit{
				Queue: f.names[q], Receipt: found[0], Payload: bytesOf(found[1]), Incarnation: in.n, Suspect: isSuspect(found[0]),
			})
		}
		f.mu.Lock()
		if reply[0] == "LOST" {
			f.forgotten[q] = old
		}
		f.adopt(q, units)
		f.mu.Unlock()
	}
	return more, err
}

// resume asks under a new generation what has become of failed calls, and keeps
// what they took for the next Take. It reads one page of each queue, and tells
// whether there is more. What nodes have forgotten is written again.
func (f *onCluster) resume(ctx context.Context) (more bool, err error) {
	f.mu.Lock()
	in := f.next()
	f.mu.Unlock()

	reply, err := resumeScript.Run(ctx, f.rdb,
		[]string{f.reg.procs, f.reg.leases, in.lease, in.fenced}, in.id, in.generation, f.ttl).StringSlice()
	if err != nil {
		return false, fmt.Errorf("resume: %w", err)
	}
	switch reply[0] {
	case "FENCED":
		return false, f.fenced(in)
	case "LOST": // the registry's node has forgotten us, and nobody has fenced us there
		if err := f.enlist(ctx, in); err != nil {
			if redis.HasErrorPrefix(err, "FENCED") {
				return false, f.fenced(in)
			}
			return false, fmt.Errorf("register again: %w", err)
		}
	}
	more, err = f.mark(ctx, in, true)
	if errors.Is(err, errShut) {
		return false, f.fenced(in)
	}
	if err != nil {
		return false, fmt.Errorf("resume: %w", err)
	}
	if err := f.restore(ctx, in); err != nil {
		return false, fmt.Errorf("write back what was in progress: %w", err)
	}
	if !more {
		f.mu.Lock()
		f.doubt, f.lost, f.found = false, nil, nil
		f.mu.Unlock()
	}
	return more, nil
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
