package fetch

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// Suspects are jobs that a Rescuer's Judge has set apart, each in a queue beside
// its own. They are taken one by one and on demand, never by Take: what is
// fetched together must not be what may kill together. In progress they are in a
// hash of their own, by which the next rescuer knows who was running.

// place is the number of the unit's hash in incarnation.wips, or on a cluster of
// its list and hash in incarnation.places.
func (f *owner) place(u *Unit) int {
	i := f.index[u.Queue]
	if u.Suspect {
		i += len(f.names)
	}
	return i
}

func anySuspect(units []Unit) bool {
	return slices.ContainsFunc(units, func(u Unit) bool { return u.Suspect })
}

// Suspects tells whether suspects wait; see Isolator. It costs one command if
// none do.
func (f *reliable) Suspects(ctx context.Context) (bool, error) {
	f.mu.Lock()
	stashed := len(f.suspects) > 0
	f.mu.Unlock()
	if stashed {
		return true, nil
	}
	lists := make([]string, len(f.names))
	for i, name := range f.names {
		lists[i] = keys.Queue(keys.Suspects(name))
	}
	n, err := f.rdb.Exists(ctx, lists...).Result()
	if err != nil || n == 0 {
		return false, err
	}
	wants, err := f.suspectWants(ctx)
	if err != nil || len(wants) == 0 {
		return false, err
	}
	var open []string // not paused
	for k := 0; k < len(wants); k += 2 {
		open = append(open, lists[wants[k].(int)-len(f.names)-1])
	}
	n, err = f.rdb.Exists(ctx, open...).Result()
	return n > 0, err
}

// stashedSuspect is one that a failed call had taken, nil if there is none.
func (f *owner) stashedSuspect(in *incarnation) (u *Unit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.suspects) > 0 && f.cur.n == in.n {
		u, f.suspects = &f.suspects[0], f.suspects[1:]
		f.announce(*u)
	}
	return u
}

// TakeSuspect takes one suspect; see Isolator. Those of a paused queue wait.
func (f *reliable) TakeSuspect(ctx context.Context) (*Unit, error) {
	var got *Unit
	err := f.call(ctx, "take a suspect", func(in *incarnation) error {
		if got = f.stashedSuspect(in); got != nil {
			return nil
		}
		wants, err := f.suspectWants(ctx)
		if err != nil || len(wants) == 0 {
			return err
		}
		f.mu.Lock()
		prefix := f.asks(in, "", 0)
		f.mu.Unlock()
		args := append(f.head(in, true, false), in.generation, f.ttl, prefix, 1, len(wants)/2, "", "", 0, 0, "", 1)
		reply, err := takeScript.run(ctx, f.rdb, append(args, wants...))
		if err != nil {
			return err
		}
		n := len(f.names)
		readReply(reply, func(q int, jobs []string) {
			got = &Unit{
				Queue: f.names[q%n], Receipt: receipts(prefix, 1)[0], Payload: bytesOf(jobs[0]), Incarnation: in.n, Suspect: q >= n,
			}
		}, nil, func(q int, text string) {
			if text != "" && q >= n { // of the queues themselves nothing is wanted
				f.sick.report(keys.Suspects(f.names[q%n]), text)
			}
		})
		if got != nil {
			f.announce(*got)
		}
		f.answered(prefix)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return got, nil
}

// suspectWants are the arguments of take that want one from each queue of
// suspects, in the order of the queues. Suspects of a paused queue are paused.
func (f *reliable) suspectWants(ctx context.Context) ([]any, error) {
	names := make([]any, len(f.names))
	for i, name := range f.names {
		names[i] = name
	}
	paused, err := f.rdb.SMIsMember(ctx, keys.Paused, names...).Result()
	if redis.HasErrorPrefix(err, "WRONGTYPE") { // pauses nothing, as in take
		paused, err = make([]bool, len(names)), nil
	}
	if err != nil {
		return nil, err
	}
	var wants []any
	for i := range names {
		if !paused[i] {
			wants = append(wants, len(names)+i+1, 1)
		}
	}
	return wants, nil
}
