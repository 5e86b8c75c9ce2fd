package fetch

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// On a cluster the suspects of a queue wait in its slot, and in progress they are
// in the hash of the queue itself: a mark in front of their receipts tells what
// they are. So a fetcher has one place per queue, and a rescuer moves and counts
// a job in one step.
const suspectMark = "?"

func isSuspect(receipt string) bool { return strings.HasPrefix(receipt, suspectMark) }

// Suspects tells whether suspects wait; see Isolator.
func (f *onCluster) Suspects(ctx context.Context) (bool, error) {
	f.mu.Lock()
	stashed := len(f.suspects) > 0
	f.mu.Unlock()
	if stashed {
		return true, nil
	}
	waiting, err := f.suspectQueues(ctx)
	return len(waiting) > 0, err
}

// suspectQueues lists the queues that are not paused and have suspects.
func (f *onCluster) suspectQueues(ctx context.Context) (waiting []int, err error) {
	asked := redis.NewBoolSliceCmd(ctx, append([]any{"smismember", keys.Paused}, anyNames(f.names)...)...)
	cmds := []redis.Cmder{asked}
	there := make([]*redis.IntCmd, len(f.names))
	for q, name := range f.names {
		there[q] = redis.NewIntCmd(ctx, "exists", keys.ClusterSuspects(name))
		cmds = append(cmds, there[q])
	}
	if err := runAll(ctx, f.rdb, nil, cmds...); err != nil {
		return nil, err
	}
	paused, err := f.readPaused(asked)
	if err != nil {
		return nil, err
	}
	for q := range f.names {
		n, err := there[q].Result()
		if err != nil {
			return nil, err
		}
		if n > 0 && !paused[q] {
			waiting = append(waiting, q)
		}
	}
	return waiting, nil
}

// TakeSuspect takes one suspect; see Isolator. Those of a paused queue wait.
func (f *onCluster) TakeSuspect(ctx context.Context) (*Unit, error) {
	var got *Unit
	err := f.call(ctx, "take a suspect", func(in *incarnation) error {
		if got = f.stashedSuspect(in); got != nil {
			return nil
		}
		waiting, err := f.suspectQueues(ctx)
		if err != nil {
			return err
		}
		for _, q := range waiting {
			if got, err = f.takeSuspect(ctx, in, q); got != nil || err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return got, nil
}

func (f *onCluster) takeSuspect(ctx context.Context, in *incarnation, q int) (*Unit, error) {
	f.mu.Lock()
	prefix := f.asks(in, suspectMark, q)
	f.mu.Unlock()
	e := newEval(clusterTake, in.places[len(f.names)+q], in.generation, prefix, 1, f.env.bytes())
	if err := runAll(ctx, f.rdb, []*eval{e}); err != nil {
		return nil, err
	}
	reply := e.cmd.Val()
	if reply[1] != "" {
		f.sick.report(keys.Suspects(f.names[q]), reply[1])
	}
	var got *Unit
	if len(reply) > 2 {
		got = &Unit{
			Queue: f.names[q], Receipt: receipts(prefix, 1)[0], Payload: bytesOf(reply[2]), Incarnation: in.n, Suspect: true,
		}
		f.announce(*got)
	}
	f.answered(prefix)
	return got, nil
}
