package inspect

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
)

// Missing returns those of the jids that no job has which is to run or runs: none in a queue, in the scheduled or the
// retry set, held by a limit, in progress, or running by the last heartbeats. Dead jobs do not count. A jid that
// is not returned may belong to a job that ends meanwhile; one that is returned may be missed only while a stop, a rescue
// or a limit puts its job back: ask twice.
//
// It reads all jobs until it has found all of the jids. It is an error if a fetcher is registered whose layout this version
// does not know: what that has in progress cannot be read.
func (i *Inspector) Missing(ctx context.Context, jids ...string) ([]string, error) {
	left := map[string]bool{}
	for _, jid := range jids {
		left[jid] = true
	}
	if len(left) == 0 {
		return nil, nil
	}
	err := i.eachJob(ctx, func(place, jid string, _ *JobRecord, _ *SortedEntry) bool {
		if place == keys.Dead {
			return false
		}
		delete(left, jid)
		return len(left) > 0
	})
	if err != nil {
		return nil, fmt.Errorf("look for jobs: %w", err)
	}
	return slices.DeleteFunc(slices.Clone(jids), func(jid string) bool { return !left[jid] }), nil
}

// visit is called with a job: its place (scheduled, retry, held, queue:NAME, in progress or dead), its jid, and its entry if it is in a
// set. It returns whether it wants more.
type visit func(place, jid string, r *JobRecord, e *SortedEntry) (more bool)

// errEnough ends a walk.
var errEnough = errors.New("enough")

// eachJob walks through all jobs in the order in which they move, and once more through where they come back to, so that one may come more
// than once; the dead ones are the last.
func (i *Inspector) eachJob(ctx context.Context, v visit) error {
	for _, look := range []func(context.Context, visit) error{i.inSets, i.inHeld, i.inQueues, i.inProgress, i.inHeld, i.inSets, i.inDead} {
		if err := look(ctx, v); errors.Is(err, errEnough) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// each calls see with jobs until it returns false, which is errEnough.
func each[J any](jobs iter.Seq2[J, error], see func(J) bool) error {
	for j, err := range jobs {
		if err != nil {
			return err
		}
		if !see(j) {
			return errEnough
		}
	}
	return nil
}

func (i *Inspector) inSet(ctx context.Context, key, place string, v visit) error {
	return each((&JobSet{Name: key, i: i}).Each(ctx), func(e *SortedEntry) bool { return v(place, e.JID, &e.JobRecord, e) })
}

func (i *Inspector) inSets(ctx context.Context, v visit) error {
	sets := [][2]string{{keys.Schedule, "scheduled"}, {keys.Retry, keys.Retry}}
	if redisconn.OnCluster(i.db()) { // where the poller keeps what it is moving
		sets = append(sets, [2]string{keys.Moving(keys.Schedule), "scheduled"}, [2]string{keys.Moving(keys.Retry), keys.Retry})
	}
	for _, set := range sets {
		if err := i.inSet(ctx, set[0], set[1], v); err != nil {
			return err
		}
	}
	return nil
}

func (i *Inspector) inDead(ctx context.Context, v visit) error {
	return i.inSet(ctx, keys.Dead, keys.Dead, v)
}

func (i *Inspector) inHeld(ctx context.Context, v visit) error {
	return each(i.HeldJobs(ctx), func(e *SortedEntry) bool { return v("held", e.Held.JID, &e.JobRecord, e) })
}

func (i *Inspector) inQueues(ctx context.Context, v visit) error {
	queues, err := i.Queues(ctx)
	for _, q := range queues {
		if err == nil {
			err = each(q.Each(ctx), func(j *QueuedJob) bool { return v(keys.Queue(q.Name), j.JID, &j.JobRecord, nil) })
		}
	}
	return err
}

func (i *Inspector) inProgress(ctx context.Context, v visit) error {
	fetchers, err := i.Fetchers(ctx)
	if err != nil {
		return err
	}
	for _, f := range fetchers {
		if f.Unknown != "" {
			return fmt.Errorf("fetcher %s has a layout that this version does not know: %s", f.ID, f.Unknown)
		}
	}
	see := func(r *JobRecord) bool { return v("in progress", r.JID, r, nil) }
	for c, err := range i.Claims(ctx) {
		if err == nil {
			err = each(c.Each(ctx), see)
		}
		if err != nil {
			return err
		}
	}
	works, err := i.Works(ctx)
	for _, w := range works {
		if !see(&w.Job) {
			return errEnough
		}
	}
	return err
}
