package periodic

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/script"
)

// pendingField begins the name of a field that has the queue and the job of a tick, by its seconds:
// on a cluster they lie in another slot than the queue.
const pendingField = "troupe_push:"

// remembered is how long a queue knows that it has got a tick: longer than one can be on its way.
const remembered = 24 * time.Hour

//go:embed push.lua
var pushSource string

var pushScript = script.New("periodic.push", pushSource)

// finish brings what the ticks of entries have left in their hashes into its queues, the oldest first:
// a queue takes no tick of an entry after a later one. So one that refuses is left alone.
func (t *Ticker) finish(ctx context.Context, all []*Entry) error {
	var failed error
	for _, e := range all {
		refused := map[string]bool{}
		for _, field := range slices.Sorted(maps.Keys(e.fields)) { // seconds of ten digits, until the year 2286
			tick, ok := strings.CutPrefix(field, pendingField)
			queue, raw, _ := strings.Cut(e.fields[field], "\n")
			if !ok || refused[queue] {
				continue
			}
			err := t.push(ctx, e, tick, queue, raw)
			refused[queue] = err != nil
			failed = errors.Join(failed, t.own(e, err))
		}
	}
	return failed
}

func (t *Ticker) push(ctx context.Context, e *Entry, tick, queue, raw string) error {
	names := []string{keys.PeriodicPushed(queue, e.key), keys.Queue(queue)}
	if err := pushScript.Run(ctx, t.Store.Redis, names, tick, raw, remembered.Milliseconds()).Err(); err != nil {
		return fmt.Errorf("push tick %s of periodic job %q: %w", tick, e.Name, err)
	}
	if err := t.Store.Redis.SAdd(ctx, keys.Queues, queue).Err(); err != nil && !isReply(err) {
		return fmt.Errorf("name queue %s: %w", queue, err)
	}
	if err := t.Store.Redis.HDel(ctx, e.key, pendingField+tick).Err(); err != nil {
		return fmt.Errorf("note the push of periodic job %q: %w", e.Name, err)
	}
	return nil
}
