package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/words"
)

// What is looked at of locks.
const (
	mostLocks  = 10_000
	shownLocks = 10
	mostJobs   = 100_000 // that are searched for those that hold them
)

// locks looks for locks of unique jobs that are gone. Those that have refused pushes are in the way; of the others some
// are held until a period is over, whatever has become of the job.
func (e *exam) locks() error {
	ctx, cancel := context.WithTimeout(e.ctx, searchTime)
	defer cancel()
	held := map[string]*inspect.Lock{}
	for l, err := range e.inspector.Locks(ctx) {
		if err != nil {
			return err
		}
		if held[l.Key] = l; len(held) > mostLocks {
			return fmt.Errorf("there are more than %s locks", words.Count(int64(mostLocks)))
		}
	}
	if len(held) == 0 {
		return nil
	}
	stats, err := e.inspector.Stats(ctx)
	if n := stats.Enqueued + stats.ScheduledSize + stats.RetrySize + stats.HeldSize; err == nil && n > mostJobs {
		err = fmt.Errorf("there are %s, too many to search them for those that hold locks", words.Plural(n, "job"))
	}
	if err != nil {
		return err
	}
	var missing []string
	for _, l := range held {
		missing = append(missing, l.Holder)
	}
	for range 2 { // one that is missed once may be on its way
		if missing, err = e.inspector.Missing(ctx, missing...); err != nil {
			return err
		}
	}
	gone := map[string]bool{}
	for _, jid := range missing {
		gone[jid] = true
	}
	refused, err := e.rdb.HGetAll(ctx, keys.Conflicts).Result()
	if err != nil {
		return err
	}
	others, shown := 0, 0
	for _, key := range slices.Sorted(maps.Keys(held)) {
		l := held[key]
		switch {
		case !gone[l.Holder]:
		case refused[key] != l.Holder:
			others++
		case shown < shownLocks: // these are enough to look at first
			shown++
			e.find(Warning, "a process of troupe frees it within two minutes; else: troupe locks free "+words.Word(key)+" --reason 'its job is gone'",
				"the lock %s refuses pushes, and the job %s that holds it is nowhere", words.Head(key), words.Head(l.Holder))
		}
	}
	if others > 0 {
		e.find(Note, "troupe locks shows them, and troupe locks free frees one",
			"%s held by jobs that are nowhere: until a period is over that is as it should be; of Ruby's jobs it is freed when it refuses a push", words.Plural(others, "lock"))
	}
	return nil
}
