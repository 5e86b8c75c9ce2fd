package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/keys"
)

// Work is a job that runs, as of the last heartbeat of its process.
type Work struct {
	Process string    // identity
	Thread  string    // unique in the process
	Queue   string    // the queue it was fetched from
	RunAt   time.Time // since when it runs, in whole seconds
	Job     JobRecord
}

// Works returns the jobs that run in the whole fleet, the longest first.
func (i *Inspector) Works(ctx context.Context) ([]*Work, error) {
	ids, err := i.members(ctx, keys.Processes)
	const each = 3
	cmds := make([]redis.Cmder, 0, each*len(ids))
	for _, id := range ids {
		cmds = append(cmds,
			redis.NewIntCmd(ctx, "exists", id),
			redis.NewMapStringStringCmd(ctx, "hgetall", keys.Work(id)),
			redis.NewMapStringStringCmd(ctx, "hgetall", keys.Workers(id)))
	}
	if err == nil {
		err = i.pipelined(ctx, cmds)
	}
	if err != nil {
		return nil, fmt.Errorf("list running jobs: %w", err)
	}
	var works []*Work
	for n, id := range ids {
		if cmds[each*n].(*redis.IntCmd).Val() == 0 {
			continue // it has died, or left just now
		}
		// One that writes both writes the same into both.
		running := cmds[each*n+1].(*redis.MapStringStringCmd).Val()
		if len(running) == 0 {
			running = cmds[each*n+2].(*redis.MapStringStringCmd).Val()
		}
		for thread, value := range running {
			works = append(works, newWork(id, thread, value))
		}
	}
	slices.SortFunc(works, func(a, b *Work) int {
		return cmp.Or(a.RunAt.Compare(b.RunAt), cmp.Compare(a.Process, b.Process), cmp.Compare(a.Thread, b.Thread))
	})
	return works, nil
}

// newWork reads the value of a running job. Its payload is a string that holds
// the job, or the job itself.
func newWork(process, thread, value string) *Work {
	w := &Work{Process: process, Thread: thread}
	p, err := troupe.ParsePayload([]byte(value))
	if err != nil {
		w.Job = newRecord(value, "") // shown as any other bytes that are no job
		return w
	}
	w.Queue, _ = p.String("queue")
	w.RunAt, _ = p.Time("run_at")
	raw, ok := p.String("payload")
	if !ok {
		object, _ := p.Get("payload")
		raw = string(object)
	}
	w.Job = newRecord(raw, "")
	return w
}
