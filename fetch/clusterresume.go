package fetch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// recover does alone what must be done before the next call.
func (f *onCluster) recover(ctx context.Context) error {
	if err := f.gate.enterAlone(ctx); err != nil {
		return err
	}
	defer f.gate.leaveAlone()
	f.mu.Lock()
	registered, doubt := f.registered, f.doubt
	f.mu.Unlock()
	if !registered {
		return f.register(ctx)
	}
	if !doubt { // somebody has been here while we waited
		return nil
	}
	f.rdb.ReloadState(ctx) // after a failover its client would ask dead nodes for seconds
	return f.resume(ctx)
}

// register makes the current incarnation known: first where rescuers look, then
// in each private place.
func (f *onCluster) register(ctx context.Context) error {
	for {
		f.mu.Lock()
		in := f.cur
		f.registering = true
		f.mu.Unlock()
		err := f.enlist(ctx, in)
		if err == nil {
			_, err = f.mark(ctx, in, nil, false)
		}
		if redis.HasErrorPrefix(err, "FENCED") || errors.Is(err, errShut) {
			// An earlier try had been carried out, its lease has run out and a
			// rescuer came by. Nothing was taken yet.
			f.mu.Lock()
			f.begin()
			f.mu.Unlock()
			continue
		}
		f.mu.Lock()
		f.registered = f.registered || err == nil
		f.mu.Unlock()
		return err
	}
}

func (f *onCluster) enlist(ctx context.Context, in *clusterLife) error {
	return registerScript.Run(ctx, f.rdb, []string{keys.ClusterProcs, keys.ClusterLeases, in.lease, in.fenced},
		in.id, f.listed, in.generation, f.ttl).Err()
}

var errShut = errors.New("a rescuer has shut the private place")

// mark writes the generation into every private place and returns what calls of
// earlier generations took. A place without a fence is noted as forgotten, unless
// it is new.
func (f *onCluster) mark(ctx context.Context, in *clusterLife, lost []clusterLost, old bool) ([]Unit, error) {
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
			units = append(units, Unit{Queue: f.names[q], Receipt: found[0], Payload: bytesOf(found[1]), Incarnation: in.n})
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
		[]string{keys.ClusterProcs, keys.ClusterLeases, in.lease, in.fenced}, in.id, in.generation, f.ttl).StringSlice()
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
	f.stash = append(f.stash, units...)
	f.doubt, f.lost = false, nil
	f.mu.Unlock()
	return nil
}

func (f *onCluster) fenced(in *clusterLife) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begin()
	return &FencedError{ID: in.id, Incarnation: in.n}
}

// restore writes what we hold back into the places that were forgotten.
func (f *onCluster) restore(ctx context.Context, in *clusterLife) error {
	f.mu.Lock()
	forgotten := slices.Clone(f.forgotten)
	units := slices.Clone(f.stash)
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

// Close gives back what was taken and never handed out, and ends the
// registration; see Fetcher.
func (f *onCluster) Close(ctx context.Context) (left int, err error) {
	if err := f.peeks.close(ctx); err != nil {
		return 0, fmt.Errorf("close: %w", err)
	}
	for {
		f.mu.Lock()
		done := f.closed || !f.registering
		leaving, registered := f.leaving, f.registered
		f.closed = done
		f.mu.Unlock()
		if done { // closed before, or nothing was ever said to Redis
			return 0, nil
		}
		if registered && !leaving {
			if err := f.giveBack(ctx); errors.Is(err, ErrFenced) {
				continue // nothing is ours any more
			} else if err != nil {
				return 0, fmt.Errorf("close: %w", err)
			}
		}
		left, err := f.leave(ctx)
		if redis.HasErrorPrefix(err, "FENCED") || err == nil && left < 0 && registered && !leaving {
			f.mu.Lock()
			f.doubt, f.leaving = true, false // go round and ask why
			f.mu.Unlock()
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("close: %w", err)
		}
		f.mu.Lock()
		f.closed = true
		f.mu.Unlock()
		return max(left, 0), nil
	}
}

// giveBack settles all doubts and puts the stash back into the queues.
func (f *onCluster) giveBack(ctx context.Context) error {
	if err := f.Open(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	stash := f.stash
	f.stash = nil
	f.mu.Unlock()
	if len(stash) == 0 {
		return nil
	}
	moves := make([]Move, len(stash))
	for i, u := range stash {
		moves[i] = Move{Unit: u, To: ToQueue}
	}
	_, err := f.Settle(ctx, moves)
	if err != nil {
		f.mu.Lock()
		if stash[0].Incarnation == f.cur.n {
			f.stash = append(f.stash, stash...)
		}
		f.mu.Unlock()
	}
	return err
}

// leave removes the private places and then the registration, unless units are
// in progress, and returns their number; -1 if there was no registration.
func (f *onCluster) leave(ctx context.Context) (int, error) {
	if err := f.gate.enterAlone(ctx); err != nil {
		return 0, err
	}
	defer f.gate.leaveAlone()
	f.mu.Lock()
	in := f.cur
	f.leaving = true
	f.mu.Unlock()
	evals := make([]*eval, len(f.names))
	for q := range f.names {
		evals[q] = newEval(clusterLeave, in.places[q][1:], in.generation)
	}
	if err := runAll(ctx, f.rdb, evals); err != nil {
		return 0, err
	}
	left := 0
	for _, e := range evals {
		left += atoi(e.cmd.Val()[0])
	}
	if left > 0 {
		return left, nil
	}
	return leaveScript.Run(ctx, f.rdb, []string{keys.ClusterProcs, keys.ClusterLeases, in.lease}, in.id).Int()
}
