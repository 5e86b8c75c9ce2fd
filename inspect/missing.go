package inspect

import (
	"context"
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
	// in the order in which jobs move, and once more where they come back to
	for _, look := range []func(context.Context, map[string]bool) error{i.foundInSets, i.foundInHeld, i.foundInQueues, i.foundInProgress, i.foundInHeld, i.foundInSets} {
		if len(left) == 0 {
			break
		}
		if err := look(ctx, left); err != nil {
			return nil, fmt.Errorf("look for jobs: %w", err)
		}
	}
	missing := slices.DeleteFunc(slices.Clone(jids), func(jid string) bool { return !left[jid] })
	return missing, nil
}

// strike takes the jids of these jobs out of left, until that is empty.
func strike[J any](left map[string]bool, jobs iter.Seq2[J, error], jid func(J) string) error {
	for j, err := range jobs {
		if err != nil {
			return err
		}
		if delete(left, jid(j)); len(left) == 0 {
			break
		}
	}
	return nil
}

func (i *Inspector) foundInSets(ctx context.Context, left map[string]bool) error {
	sets := []string{keys.Schedule, keys.Retry}
	if redisconn.OnCluster(i.db()) { // where the poller keeps what it is moving
		sets = append(sets, keys.Moving(keys.Schedule), keys.Moving(keys.Retry))
	}
	for _, name := range sets {
		set := &JobSet{Name: name, i: i}
		if err := strike(left, set.Each(ctx), func(e *SortedEntry) string { return e.JID }); err != nil {
			return err
		}
	}
	return nil
}

func (i *Inspector) foundInHeld(ctx context.Context, left map[string]bool) error {
	return strike(left, i.HeldJobs(ctx), func(e *SortedEntry) string { return e.Held.JID })
}

func (i *Inspector) foundInQueues(ctx context.Context, left map[string]bool) error {
	queues, err := i.Queues(ctx)
	if err != nil {
		return err
	}
	for _, q := range queues {
		if err := strike(left, q.Each(ctx), func(j *QueuedJob) string { return j.JID }); err != nil {
			return err
		}
	}
	return nil
}

func (i *Inspector) foundInProgress(ctx context.Context, left map[string]bool) error {
	fetchers, err := i.Fetchers(ctx)
	if err != nil {
		return err
	}
	for _, f := range fetchers {
		if f.Unknown != "" {
			return fmt.Errorf("fetcher %s has a layout that this version does not know: %s", f.ID, f.Unknown)
		}
	}
	for c, err := range i.Claims(ctx) {
		if err != nil {
			return err
		}
		if err := strike(left, c.Each(ctx), func(r *JobRecord) string { return r.JID }); err != nil {
			return err
		}
	}
	works, err := i.Works(ctx)
	for _, w := range works {
		delete(left, w.Job.JID)
	}
	return err
}
