package rescue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/script"
)

const (
	searchTime  = time.Second // of one look
	searchShare = 1000        // a fleet searches for at most this part of the time
)

// search is how far a rescuer is with the search for lists that no index names. One of the
// fleet searches, at most every ten minutes.
type search struct {
	Search
	asked time.Time // for the lock
	goes  bool      // it is ours
	took  time.Duration
	found []Unnamed
}

// lookForLists searches for a moment, if it is time and nobody else does. Its errors are only
// logged.
func (r *Rescuer) lookForLists(ctx context.Context) {
	s := &r.search
	if !s.goes {
		if !s.asked.IsZero() && time.Since(s.asked) < AllTime {
			return
		}
		s.asked = time.Now()
		ours, err := r.rdb.SetNX(ctx, keys.Search, "1", AllTime).Result()
		if err != nil || !ours {
			return
		}
		s.Search, s.goes, s.took = Search{}, true, 0
	}
	began := time.Now()
	found, done, err := s.Next(ctx, r.rdb, searchTime)
	s.found = append(s.found, found...)
	s.took += time.Since(began)
	if err != nil {
		r.cfg.Logger.Debug().Err(err).Msg("could not search for jobs in progress that no index names; again in ten minutes")
	}
	s.goes = !done && err == nil
	r.rdb.PExpire(ctx, keys.Search, max(AllTime, searchShare*s.took))
}

// Name names lists that Search has found in an index of their owners, so that a round
// rescues these, and tells how many. What it cannot name has a line in the log. It returns
// ErrBusy as RescueOnly does.
func (r *Rescuer) Name(ctx context.Context, lists []Unnamed) (n int, err error) {
	if err := r.enter(ctx); err != nil {
		return 0, err
	}
	defer r.leave()
	err = r.locked(ctx, func(string) error {
		ids, err := r.name(ctx, lists)
		n = len(ids)
		return err
	})
	if err != nil {
		return n, fmt.Errorf("name: %w", err)
	}
	return n, nil
}

// name returns the owners of the lists that it has named.
func (r *Rescuer) name(ctx context.Context, lists []Unnamed) (ids []string, err error) {
	queues := map[string][]string{} // of the owners
	lists = slices.Clone(lists)
	for i := range lists {
		l := &lists[i]
		if l.Queue == "" {
			l.Queue = r.queueOfList(ctx, l)
		}
		if l.Queue != "" && !slices.Contains(queues[l.ID], l.Queue) {
			queues[l.ID] = append(queues[l.ID], l.Queue)
		}
	}
	var failed []error
	for i := range lists {
		l := &lists[i]
		if l.Queue == "" {
			r.cfg.Logger.Warn().Str("list", l.Key).Int64("jobs", l.Jobs).
				Msg("no index names these jobs in progress, and none of them tells its queue; they are left alone")
			continue
		}
		named, err := r.nameList(ctx, l, queues[l.ID])
		if err != nil {
			failed = append(failed, fmt.Errorf("list %s: %w", l.Key, err))
			continue
		}
		if named && !slices.Contains(ids, l.ID) {
			ids = append(ids, l.ID)
			r.cfg.Logger.Warn().Str("list", l.Key).Int64("jobs", l.Jobs).Msg("no index named these jobs in progress, and their process is gone; they are rescued")
		}
	}
	return ids, errors.Join(failed...)
}

// queueOfList is the queue that the first of its jobs tells that tells one: all are from the same.
func (r *Rescuer) queueOfList(ctx context.Context, l *Unnamed) string {
	for i := int64(-1); r.cfg.QueueOf != nil && i >= -keys.ClaimSize; i-- {
		jobs, err := r.rdb.LRange(ctx, l.Key, i, i).Result()
		if err != nil || len(jobs) == 0 {
			break
		}
		if queue := r.cfg.QueueOf([]byte(jobs[0])); queue != "" {
			return queue
		}
	}
	return ""
}

// nameList tells whether it has named the list: its owner is gone, and it is still there.
func (r *Rescuer) nameList(ctx context.Context, l *Unnamed, queues []string) (bool, error) {
	value, err := json.Marshal(keys.Registered{Layout: keys.Layout, Queues: queues})
	if err != nil {
		return false, err
	}
	common := keys.CommonOf(l.ID, r.cluster)
	names := []string{l.Slot.Index(l.ID), l.Key, l.Slot.Registry()}
	if !r.cluster {
		names = append(names, common.Lease)
	} else if n, err := r.rdb.Exists(ctx, common.Lease).Result(); err != nil || n > 0 {
		return false, err
	}
	if err := script.Put.Run(ctx, r.rdb, []string{keys.Queues}, "SADD", l.Queue).Err(); err != nil {
		return false, err
	}
	named, err := nameScript.Run(ctx, r.rdb, names, l.ID, value, l.Field, l.Queue, tombstoneTime.Milliseconds()).Bool()
	if named && r.cluster { // the node of its slot may be away for the next rescuer
		err = r.rdb.HSet(ctx, common.Owners, l.ID, value).Err()
	}
	return named, err
}
