package fetch

import (
	"context"
	"fmt"
	"slices"

	"github.com/troupehq/troupe/internal/keys"
)

// mend finds out what became of failed calls and writes back what was forgotten.
func (f *reliable) mend(ctx context.Context, doubt bool) error {
	for doubt { // else somebody has been here while we waited
		var err error
		if doubt, err = f.resume(ctx); err != nil {
			return err
		}
	}
	err := f.restore(ctx)
	if err != nil {
		f.mu.Lock()
		f.doubt = true // what is on its way must not write back a unit that is settled by then
		f.mu.Unlock()
	}
	return err
}

// resume asks under a new generation what has become of the failed calls, and
// keeps what they took for the next Take. It reads one page, and tells whether there
// is more: what has been found is not asked for again, whatever becomes of the rest.
func (f *reliable) resume(ctx context.Context) (more bool, err error) {
	f.mu.Lock()
	in := f.next()
	args := f.lostArgs([]any{in.id, in.generation, f.ttl, f.page.bytes()}, 0)
	f.mu.Unlock()

	reply, err := resumeScript.Run(ctx, f.rdb,
		append([]string{keys.Procs, keys.Leases, in.lease, in.fenced}, in.wips...), args...).StringSlice()
	f.page.note(err)
	if err != nil {
		return false, fmt.Errorf("resume: %w", err)
	}

	if reply[0] == "FENCED" {
		return false, f.fenced(in)
	}
	if reply[0] == "LOST" {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.amnesia, f.doubt, f.lost, f.found = true, false, nil, nil
		return false, nil
	}
	var units []Unit
	sick := map[string]string{}
	for found := reply[2:]; len(found) >= 3; found = found[3:] {
		i := atoi(found[0]) - 1
		if found[1] == "" {
			sick[f.names[i%len(f.names)]] = found[2]
			continue
		}
		units = append(units, Unit{
			Queue: f.names[i%len(f.names)], Receipt: found[1], Payload: bytesOf(found[2]), Incarnation: in.n, Suspect: i >= len(f.names),
		})
	}
	more = reply[1] != ""
	f.mu.Lock()
	f.adopt(0, units)
	if !more {
		f.doubt, f.lost, f.found = false, nil, nil
	}
	f.mu.Unlock()
	for queue, text := range sick {
		f.sick.report(queue, text)
	}
	return more, nil
}

// restore registers again and writes back every unit held, after Redis has
// lost its data: it forgot the fetcher and left no tombstone, so nobody else
// has the units. Registration comes first: units of an unknown fetcher would
// be put back into their queue by a sweep.
func (f *reliable) restore(ctx context.Context) error {
	f.mu.Lock()
	in, amnesia := f.cur, f.amnesia
	f.mu.Unlock()
	if !amnesia {
		return nil
	}
	if err := f.enlist(ctx, in); err != nil {
		return fmt.Errorf("register again: %w", err)
	}
	if err := f.laps.register(ctx); err != nil {
		return fmt.Errorf("register its laps again: %w", err)
	}
	units := f.held(in)
	for start := 0; start < len(units); {
		end, args := start, []any{in.generation, f.ttl}
		for size := 0; end < len(units) && end-start < maxBatch && size < maxBatchBytes; end++ {
			if f.place(&units[end]) != f.place(&units[start]) {
				break
			}
			args = append(args, units[end].Receipt, units[end].Payload)
			size += len(units[end].Payload)
		}
		wip := in.wips[f.place(&units[start])]
		if err := restoreScript.Run(ctx, f.rdb, []string{in.lease, wip}, args...).Err(); err != nil {
			return fmt.Errorf("write back what was in progress: %w", err)
		}
		start = end
	}
	if err := f.dropParcels(ctx, in, units); err != nil {
		return fmt.Errorf("take parcels apart: %w", err)
	}
	f.env.Logger.Warn().Str("fetcher", in.id).Int("units", len(units)).
		Msg("redis had lost its data; registered again and wrote back what is in progress")
	f.mu.Lock()
	f.amnesia = false
	f.mu.Unlock()
	return nil
}

// dropParcels removes the parcels of units that have fields of their own now, should
// Redis have kept any.
func (f *reliable) dropParcels(ctx context.Context, in *incarnation, units []Unit) error {
	pipe, last := f.rdb.Pipeline(), (*Parcel)(nil)
	for i := range units {
		if p := units[i].Parcel; p != nil && p != last {
			last = p
			p.takeApart()
			pipe.HDel(ctx, in.wips[p.place], p.field)
			pipe.Del(ctx, p.list)
		}
	}
	_, err := pipe.Exec(ctx)
	return err
}

// held lists the unsettled units of the incarnation, by queue.
func (f *reliable) held(in *incarnation) []Unit {
	f.mu.Lock()
	units := slices.Concat(f.stash, f.suspects)
	f.mu.Unlock()
	if f.env.Held != nil {
		units = append(units, f.env.Held()...)
	}
	units = slices.DeleteFunc(units, func(u Unit) bool { return !f.owns(in, u) })
	slices.SortStableFunc(units, func(a, b Unit) int { return f.place(&a) - f.place(&b) })
	return units
}
