package fleet

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/words"
)

// Lock is the lock of a unique job, and where the job is that holds it.
type Lock struct {
	*inspect.Lock `json:"-"`

	Key    string    `json:"lock"`
	Holder string    `json:"holder"`         // jid
	Class  string    `json:"class"`          // of the holder; "" if it was not found
	Place  string    `json:"place"`          // running, in progress, queue:NAME, held, retry, scheduled, dead, nowhere; "" if not all was searched
	Since  time.Time `json:"since,omitzero"` // when the holder was pushed; zero if it was not found
	Ends   time.Time `json:"ends,omitzero"`
}

// Nowhere is the place of a job that was not found.
const Nowhere = "nowhere"

// MostSearched is how many jobs are searched for those that hold locks.
const MostSearched = 100_000

// Locks are at most so many locks, those that end first before the others, that a function chooses; nil chooses all. More
// tells that there are more. The jobs that hold them are searched for among all jobs, if these are not too many.
func (f *Fleet) Locks(ctx context.Context, limit int, choose func(*inspect.Lock) bool) (all []Lock, more bool, err error) {
	seen := map[string]bool{}
	for l, err := range f.Inspector.Locks(ctx) {
		if err != nil {
			return nil, false, err
		}
		if seen[l.Key] || choose != nil && !choose(l) {
			continue
		}
		if more = limit > 0 && len(all) == limit; more {
			break
		}
		seen[l.Key] = true
		all = append(all, LockOf(l))
	}
	slices.SortFunc(all, func(a, b Lock) int {
		if c := a.Ends.Compare(b.Ends); c != 0 {
			return c
		}
		return strings.Compare(a.Key, b.Key)
	})
	return all, more, f.Holders(ctx, all)
}

// LockOf is a lock whose holder was not looked for.
func LockOf(l *inspect.Lock) Lock { return Lock{Lock: l, Key: l.Key, Holder: l.Holder, Ends: l.Ends} }

// Where is the place in words.
func (l *Lock) Where() string {
	switch name, queued := strings.CutPrefix(l.Place, "queue:"); {
	case queued:
		return "in the queue " + words.Head(name)
	case l.Place == "":
		return "not searched: there are too many jobs"
	case l.Place == Nowhere:
		return "nowhere: it has ended, or was taken away"
	default:
		return l.Place
	}
}

// Holders looks where the jobs are that hold these locks.
func (f *Fleet) Holders(ctx context.Context, locks []Lock) error {
	if len(locks) == 0 {
		return nil
	}
	stats, err := f.Inspector.Stats(ctx)
	if err != nil || stats.Enqueued+stats.ScheduledSize+stats.RetrySize+stats.DeadSize+stats.HeldSize > MostSearched {
		return err
	}
	left, all := map[string][]*Lock{}, true
	for i := range locks {
		left[locks[i].Holder] = append(left[locks[i].Holder], &locks[i])
	}
	found := func(r *inspect.JobRecord, place string) (more bool) {
		job := r.Summary()
		for _, l := range left[r.JID] {
			l.Class, l.Place, l.Since = job.Class, place, job.CreatedAt.UTC()
		}
		delete(left, r.JID)
		return len(left) > 0
	}
	works, err := f.Inspector.Works(ctx)
	if err != nil {
		return err
	}
	for _, w := range works {
		found(&w.Job, "running")
	}
	sets := func(names ...string) error {
		for _, name := range names {
			set := map[string]*inspect.JobSet{"scheduled": f.Inspector.ScheduledSet, "retry": f.Inspector.RetrySet, "dead": f.Inspector.DeadSet}[name]
			if err := search(&all, set.Each(ctx), func(e *inspect.SortedEntry) bool { return found(&e.JobRecord, name) }); err != nil {
				return err
			}
		}
		return nil
	}
	held := func() error {
		return search(&all, f.Inspector.HeldJobs(ctx), func(e *inspect.SortedEntry) bool { return found(&e.JobRecord, "held") })
	}
	// in the order in which jobs move, and once more where they come back to
	for _, look := range []func() error{
		func() error { return sets("scheduled", "retry") },
		held,
		func() error {
			queues, err := f.Inspector.Queues(ctx)
			for _, q := range queues {
				if err == nil && len(left) > 0 {
					err = search(&all, q.Each(ctx), func(j *inspect.QueuedJob) bool { return found(&j.JobRecord, "queue:"+q.Name) })
				}
			}
			return err
		},
		func() error {
			fetchers, err := f.Inspector.Fetchers(ctx)
			for _, o := range fetchers {
				all = all && o.Unknown == "" // what that has in progress cannot be read
			}
			if err != nil {
				return err
			}
			return search(&all, f.Inspector.Claims(ctx), func(c *inspect.Claim) bool {
				err = search(&all, c.Each(ctx), func(r *inspect.JobRecord) bool { return found(r, "in progress") })
				return err == nil && len(left) > 0
			})
		},
		held,
		func() error { return sets("scheduled", "retry", "dead") },
	} {
		if len(left) == 0 {
			return nil
		}
		if err := look(); err != nil {
			return err
		}
	}
	for _, locks := range left {
		for _, l := range locks {
			if all {
				l.Place = Nowhere
			}
		}
	}
	return nil
}

// search calls found for jobs until it returns false. A key of a wrong type is left out, and all is false then.
func search[J any](all *bool, jobs iter.Seq2[J, error], found func(J) bool) error {
	for j, err := range jobs {
		switch {
		case err != nil && strings.Contains(err.Error(), "WRONGTYPE"):
			*all = false
			return nil
		case err != nil:
			return err
		case !found(j):
			return nil
		}
	}
	return nil
}
