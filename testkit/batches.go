package testkit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/script"
	"github.com/troupehq/troupe/internal/test/harness"
)

// RequireBatch fails the test unless exactly one batch with that name, or "" for any, was made by the client of a Fake or an Inline since
// the last Clear, and returns it as it is now: State tells how far it is, Total, Pending and Callbacks what it has. Its jobs are among those
// that were pushed.
func RequireBatch(tb testing.TB, p *Pushes, name string) *inspect.Batch {
	tb.Helper()
	var all []*inspect.Batch
	if store := p.madeBatches(); store != nil {
		i := inspect.New(store)
		listed, _, err := i.Batches(tb.Context())
		for _, b := range listed {
			if err == nil && (name == "" || b.Name == name) {
				var one *inspect.Batch
				one, err = i.Batch(tb.Context(), b.ID)
				all = append(all, one)
			}
		}
		if err != nil {
			tb.Fatalf("the batches of a fake: %v", err)
		}
	}
	if len(all) != 1 {
		tb.Fatalf("expected one batch %q, got %d\n%s", name, len(all), p.listAll())
	}
	return all[0]
}

// RequireBatchState waits, for at most 10 s, until the batch with that ID is in a state, inspect.BatchSucceeded for example, and returns it.
func RequireBatchState(tb testing.TB, rdb redis.UniversalClient, id, state string) (b *inspect.Batch) {
	tb.Helper()
	var err error
	i := inspect.New(rdb)
	if !harness.Within(expectTime, func() bool {
		b, err = i.Batch(tb.Context(), id)
		return err == nil && b.State() == state
	}) {
		if err != nil {
			tb.Fatalf("expected a batch that is %s: %v", state, err)
		}
		tb.Fatalf("expected the batch %s to be %s, it is %s: of its %d jobs %d have not ended a run, and %d are not done",
			id, state, b.State(), b.Total, b.Unrun, b.Pending)
	}
	return b
}

// batchScript tells whether a command pushes jobs into a batch, or counts them there.
func batchScript(cmd redis.Cmder) bool {
	name := scriptOf(cmd)
	return name == "job.joinbatch" || name == "job.countbatch"
}

// runBatch has a Redis in memory run such a script, or lets it pass, and notes the jobs that it has pushed. Of those that have passed the place
// in their batch is not known.
func (h hook) runBatch(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
	reply, ok := cmd.(*redis.Cmd)
	if !ok {
		return fmt.Errorf("testkit: a script of batches as a %T", cmd)
	}
	jobs, err := joinsOf(cmd.Args())
	switch {
	case err != nil:
	case !h.pass:
		jobs, err = h.p.inBatches(ctx, reply, jobs)
	default:
		if err = next(ctx, cmd); err == nil && reply.Val() != "" {
			jobs = nil
		}
	}
	if err == nil {
		err = h.p.add(ctx, jobs)
	}
	if err != nil {
		cmd.SetErr(err)
	}
	return err
}

// joinsOf reads the jobs out of a call of joinbatch.lua; none of one of countbatch.lua.
func joinsOf(args []any) (jobs []Pushed, err error) {
	n, _ := args[2].(int)
	if n != 2 { // keys
		return nil, nil
	}
	const before = 3 + 2 + 4 // the arguments of join
	fields, _ := args[before+1].(int)
	for at := before + 2 + fields; at < len(args); at += 3 {
		text, _ := args[at+2].([]byte)
		found, err := pushedBy([]any{"lpush", keys.Queue(""), append(slices.Clone(text), '}')})
		if err != nil {
			return nil, err
		}
		if score := fmt.Sprint(args[at+1]); score != "" {
			if found[0].At, err = timeOf(score); err != nil {
				return nil, err
			}
		}
		jobs = append(jobs, found...)
	}
	return jobs, nil
}

// inBatches runs the script of a command, and returns the jobs that it has pushed: those that joined, in their order, then callbacks.
func (p *Pushes) inBatches(ctx context.Context, cmd *redis.Cmd, joined []Pushed) (jobs []Pushed, err error) {
	p.mu.Lock()
	if p.batches == nil {
		p.batches = NewMemory(p.tb).Client
	}
	store := p.batches
	p.mu.Unlock()
	p.running.Lock()
	defer p.running.Unlock()
	args := cmd.Args()
	n, _ := args[2].(int)
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint(args[3+i])
	}
	source, _ := script.Source(fmt.Sprint(args[1]))
	value, err := store.Eval(ctx, source, names, args[3+n:]...).Result()
	if err != nil {
		return nil, err
	}
	cmd.SetVal(value)
	scheduled, err := store.ZRangeWithScores(ctx, keys.Schedule, 0, -1).Result()
	commands := [][]any{{"zadd", keys.Schedule}}
	for _, z := range scheduled {
		commands[0] = append(commands[0], z.Score, z.Member)
	}
	queues, fault := store.Keys(ctx, keys.Queue("*")).Result()
	err = cmp.Or(err, fault)
	slices.Sort(queues)
	for _, key := range queues {
		raws, fault := store.LRange(ctx, key, 0, -1).Result()
		err = cmp.Or(err, fault)
		push := []any{"lpush", key}
		for _, raw := range slices.Backward(raws) {
			push = append(push, raw)
		}
		commands = append(commands, push)
	}
	for _, command := range commands {
		found, fault := pushedBy(command)
		err = cmp.Or(err, fault)
		jobs = append(jobs, found...)
	}
	if err == nil {
		err = store.Del(ctx, append(queues, keys.Schedule)...).Err()
	}
	place := make(map[string]int, len(joined))
	for i, j := range joined {
		place[j.JID()] = i - len(joined)
	}
	slices.SortStableFunc(jobs, func(a, b Pushed) int { return cmp.Compare(place[a.JID()], place[b.JID()]) })
	return jobs, err
}

// counted notes what has become of a job in its batch.
func (p *Pushes) counted(ctx context.Context, j *troupe.Payload, end job.BatchEvent) error {
	in, ok := job.BatchOf(j)
	if !ok {
		return nil
	}
	return job.CountBatch(context.WithoutCancel(ctx), p.rdb, job.Count{InBatch: in, Event: end})
}

// calledOff tells whether the batch of a job was cancelled.
func (p *Pushes) calledOff(ctx context.Context, j *troupe.Payload) bool {
	in, ok := job.BatchOf(j)
	store := p.madeBatches()
	return ok && store != nil && store.ZScore(context.WithoutCancel(ctx), keys.BatchesCancelled, in.ID).Err() == nil
}

func (p *Pushes) madeBatches() *redis.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.batches
}
