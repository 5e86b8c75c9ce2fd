package actors

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/troupehq/troupe/actors/internal/env"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/words"
)

// This file is about orphans: locks of unique jobs that are gone, since Ruby has run or deleted them, say. A push that a
// lock refuses notes the lock; the leader looks for the jobs of these, and frees a lock whose job it has missed twice.

const (
	orphansEvery = 45 * time.Second // so that an orphan is freed within two minutes of the first push that it refuses
	orphansTime  = 30 * time.Second // of one look
	orphansMost  = 100_000          // with more jobs than that in Redis there is no look
)

// freeOrphans looks now and then, while this process leads.
func (p *poller) freeOrphans(l *supervised.Loop, s *system) {
	missed := map[string]string{} // by the last look: lock -> jid
	for l.Pause(orphansEvery) {
		if !s.sched.Leads(keys.Schedule) {
			clear(missed)
			continue
		}
		ctx, cancel := context.WithTimeout(l.Context, orphansTime)
		now, err := p.lookForOrphans(ctx, s, missed)
		cancel()
		if missed = now; err != nil {
			p.env.Log.Debug().Err(err).Str("actor", pollerPart).Msg("no look for locks without jobs")
		}
	}
}

// lookForOrphans frees the locks whose jobs are missing and were missed before, and returns the others that are missing.
func (p *poller) lookForOrphans(ctx context.Context, s *system, before map[string]string) (missed map[string]string, err error) {
	rdb := s.redis
	missed = map[string]string{}
	asked, err := rdb.HGetAll(ctx, keys.Conflicts).Result()
	if err != nil || len(asked) == 0 {
		return missed, err
	}
	look := inspect.New(rdb)
	stats, err := look.Stats(ctx)
	if err != nil {
		return missed, err
	}
	if n := stats.Enqueued + stats.ScheduledSize + stats.RetrySize; n > orphansMost {
		return missed, fmt.Errorf("%d jobs are in Redis, more than %d", n, orphansMost)
	}
	gone, err := look.Missing(ctx, slices.Collect(maps.Values(asked))...)
	if err != nil {
		return missed, err
	}
	missing := map[string]bool{}
	for _, jid := range gone {
		missing[jid] = true
	}
	for lock, jid := range asked {
		if missing[jid] && before[lock] != jid {
			missed[lock] = jid
			continue
		}
		if missing[jid] {
			call, cancel := env.Within(ctx)
			freed, err := job.FreeLock(call, rdb, lock, jid)
			cancel()
			if err != nil {
				return missed, err
			}
			if freed {
				p.env.Log.Warn().Str("actor", pollerPart).Str("lock", words.Text(lock)).Str("jid", words.Text(jid)).
					Msg("a lock was freed: its job is gone")
			}
		}
		if err := rdb.HDel(ctx, keys.Conflicts, lock).Err(); err != nil {
			return missed, err
		}
	}
	return missed, nil
}
