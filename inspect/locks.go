package inspect

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
)

// Lock is the lock of a unique job, as it was when it was read.
type Lock struct {
	Key    string    // its key in Redis
	Digest string    // of what makes jobs the same
	Holder string    // jid of the job that holds it; "" if none does
	Ends   time.Time // when it ends by itself; the zero time if it does not, or nobody holds it
	i      *Inspector
}

// lockPage is how many keys one SCAN looks at.
const lockPage = 1000

// Locks walks through the locks of unique jobs that are held, in no order and in pages. It reads the names of all keys of
// Redis. A lock may come twice while keys are added and removed.
func (i *Inspector) Locks(ctx context.Context) iter.Seq2[*Lock, error] {
	return func(yield func(*Lock, error) bool) {
		masters, err := i.masters(ctx)
		if err != nil {
			yield(nil, fmt.Errorf("list locks: %w", err))
			return
		}
		for _, master := range masters {
			for cursor := uint64(0); ; {
				page, next, err := master.Scan(ctx, cursor, keys.LockPrefix+"*", lockPage).Result()
				var locks []*Lock
				if err == nil {
					locks, err = i.locks(ctx, page)
				}
				if err != nil {
					yield(nil, fmt.Errorf("list locks: %w", err))
					return
				}
				for _, l := range locks {
					if l.Holder != "" && !yield(l, nil) {
						return
					}
				}
				if cursor = next; cursor == 0 {
					break
				}
			}
		}
	}
}

// masters are the servers whose keys are to be scanned.
func (i *Inspector) masters(ctx context.Context) ([]redis.UniversalClient, error) {
	c, ok := i.db().(*redis.ClusterClient)
	if !ok {
		return []redis.UniversalClient{i.db()}, nil
	}
	var mu sync.Mutex
	var all []redis.UniversalClient
	err := c.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, master)
		return nil
	})
	return all, err
}

// locks reads locks; those that are no strings are held by nobody.
func (i *Inspector) locks(ctx context.Context, names []string) ([]*Lock, error) {
	cmds := make([]redis.Cmder, 0, 2*len(names))
	for _, key := range names {
		cmds = append(cmds, redis.NewStringCmd(ctx, "get", key), redis.NewDurationCmd(ctx, time.Millisecond, "pttl", key))
	}
	if err := i.pipelined(ctx, cmds); err != nil {
		return nil, err
	}
	all := make([]*Lock, len(names))
	for n, key := range names {
		l := &Lock{Key: key, Digest: key[strings.LastIndexByte(key, ':')+1:], Holder: cmds[2*n].(*redis.StringCmd).Val(), i: i}
		if ttl := cmds[2*n+1].(*redis.DurationCmd).Val(); l.Holder != "" && ttl > 0 {
			l.Ends = time.Now().Add(ttl).UTC().Truncate(time.Millisecond)
		}
		all[n] = l
	}
	return all, nil
}

// Lock returns the lock of that key, as a *client.DuplicateError names it, or ErrNotFound if nobody holds it.
func (i *Inspector) Lock(ctx context.Context, key string) (*Lock, error) {
	if !strings.HasPrefix(key, keys.LockPrefix) {
		return nil, fmt.Errorf("read a lock: got the key %.100q, expected one that begins with %s", key, keys.LockPrefix)
	}
	all, err := i.locks(ctx, []string{key})
	if err == nil && all[0].Holder == "" {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read lock %.100s: %w", key, err)
	}
	return all[0], nil
}

// LockOf returns the lock of a job; nil if it is not unique. Who holds it may be another job, or none: see Lock.Holder.
func (i *Inspector) LockOf(ctx context.Context, r *JobRecord) (*Lock, error) {
	lock := job.LockOf(r.Payload, redisconn.OnCluster(i.db()))
	if lock == nil {
		return nil, nil
	}
	all, err := i.locks(ctx, []string{lock.Key})
	if err != nil {
		return nil, fmt.Errorf("read the lock of job %s: %w", r.JID, err)
	}
	return all[0], nil
}

// Free frees the lock, if the same job holds it still; else it returns Gone. That job stays, and runs: another one that is the
// same can be pushed beside it.
func (l *Lock) Free(ctx context.Context) (Outcome, error) {
	if l.i == nil {
		return Gone, errNotMade
	}
	if l.Holder == "" {
		return Gone, errors.New("free a lock: nobody holds it")
	}
	freed, err := job.FreeLock(ctx, l.i.db(), l.Key, l.Holder)
	return outcomeOf(freed), err
}
