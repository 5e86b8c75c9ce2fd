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

	Progress *Progress // nil if it has told none
}

// Works returns the jobs that run in the whole fleet, the longest first.
func (i *Inspector) Works(ctx context.Context) ([]*Work, error) {
	ids, err := i.members(ctx, keys.Processes)
	const kinds = 3 // of hashes
	cmds := make([]redis.Cmder, len(ids))
	hashes := make([]reading, 0, kinds*len(ids))
	for n, id := range ids {
		cmds[n] = redis.NewIntCmd(ctx, "exists", id)
		hashes = append(hashes, reading{where: ofHash, key: keys.Work(id)}, reading{where: ofHash, key: keys.Workers(id)}, reading{where: ofHash, key: keys.Progress(id)})
	}
	var running []window
	if err == nil {
		running, err = i.readEach(ctx, hashes, cmds...)
	}
	if err != nil {
		return nil, fmt.Errorf("list running jobs: %w", err)
	}
	var works []*Work
	for n, id := range ids {
		if cmds[n].(*redis.IntCmd).Val() == 0 {
			continue // it has died, or left just now
		}
		// A process that writes both hashes writes the same into both.
		values := running[kinds*n].all
		if len(values) == 0 {
			values = running[kinds*n+1].all
		}
		told := map[string]*Progress{}
		for _, one := range running[kinds*n+2].all {
			told[one.field] = progressOf(one.head)
		}
		for _, one := range values {
			w := newWork(id, one.field, one.text)
			w.Progress = told[w.Job.JID]
			works = append(works, w)
		}
	}
	slices.SortFunc(works, func(a, b *Work) int {
		return cmp.Or(a.RunAt.Compare(b.RunAt), cmp.Compare(a.Process, b.Process), cmp.Compare(a.Thread, b.Thread))
	})
	return works, nil
}

// newWork reads the value of a running job. Its payload is a JSON string with
// the job in it, or the job itself.
func newWork(process, thread string, value text) *Work {
	w := &Work{Process: process, Thread: thread}
	p, err := troupe.ParsePayload([]byte(value.shown()))
	if err != nil {
		w.Job = recordOf(value, "") // shown as any other bytes that are no job
		return w
	}
	w.Queue, _ = p.String("queue")
	w.RunAt, _ = p.Time("run_at")
	raw, ok := p.String("payload")
	if !ok {
		object, _ := p.Get("payload")
		raw = string(object)
	}
	w.Job = recordOf(value.within(raw), "")
	return w
}
