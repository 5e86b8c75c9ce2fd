package chaos

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// Inventory is where each job of a Redis is, by jid: "queue:NAME", "schedule",
// "retry", "dead", "in progress", or "unnamed KEY" for a list of jobs in progress
// that no in-progress index names, so that nobody would ever find it. A job that is
// somewhere twice is listed twice. What has no jid is listed under "".
type Inventory map[string][]string

// TakeInventory looks at every queue, set and list in progress. It is exact while
// nobody moves jobs.
func TakeInventory(tb testing.TB, rdb redis.UniversalClient) Inventory {
	tb.Helper()
	ctx := context.Background()
	in := Inventory{}
	queues, err := rdb.SMembers(ctx, "queues").Result()
	if err != nil {
		tb.Fatalf("inventory: queues: %v", err)
	}
	for _, q := range queues {
		jobs, err := rdb.LRange(ctx, "queue:"+q, 0, -1).Result()
		if err != nil {
			tb.Fatalf("inventory: queue %s: %v", q, err)
		}
		in.add("queue:"+q, jobs)
	}
	for _, set := range []string{"schedule", "retry", "dead"} {
		jobs, err := rdb.ZRange(ctx, set, 0, -1).Result()
		if err != nil {
			tb.Fatalf("inventory: %s: %v", set, err)
		}
		in.add(set, jobs)
	}
	named := map[string]bool{}
	for claim, err := range inspect.New(rdb).Claims(ctx) {
		if err != nil {
			tb.Fatalf("inventory: %v", err)
		}
		named[claim.Key] = true
	}
	lists, err := redistest.InProgress(ctx, rdb)
	if err != nil {
		tb.Fatalf("inventory: jobs in progress: %v", err)
	}
	for key, jobs := range lists {
		if named[key] {
			in.add("in progress", jobs)
		} else {
			in.add(unnamed+key, jobs)
		}
	}
	return in
}

const unnamed = "unnamed "

func (in Inventory) add(place string, jobs []string) {
	for _, job := range jobs {
		jid := ""
		if p, err := troupe.ParsePayload([]byte(job)); err == nil {
			jid = p.JID()
		}
		in[jid] = append(in[jid], place)
	}
}
