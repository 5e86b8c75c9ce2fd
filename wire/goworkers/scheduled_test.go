package goworkers_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/wire/goworkers"
)

// Both systems have the set schedule in common. Whichever of the two pollers of a daemon meets a job,
// it is promoted by the rules of the capsule that serves its queue.
func TestScheduledJobsKeepTheRulesOfTheirQueue(t *testing.T) {
	rdb := testkit.Redis(t)
	ctx := t.Context()
	var mu sync.Mutex
	ran := map[string]*troupe.Payload{}
	note := troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error {
		mu.Lock()
		defer mu.Unlock()
		ran[p.Class()+" "+string(p.Args())] = p.Clone()
		return nil
	})
	var jobs troupe.Registry
	troupe.HandleClass(&jobs, "Go", note)
	troupe.HandleClass(&jobs, "Ruby", note)
	const n = 20
	due := float64(time.Now().Add(-time.Minute).Unix())
	for i := range n {
		rdb.ZAdd(ctx, "schedule", redisZ(due, fmt.Sprintf(`{"queue":"gq","class":"Go","args":{"n":%d},"enqueued_at":1.5,"at":2.5}`, i)))
		rdb.ZAdd(ctx, "schedule", redisZ(due, fmt.Sprintf(`{"queue":"default","class":"Ruby","args":[%d],"at":2.5}`, i)))
	}
	testkit.Start(t, actors.Config{Redis: rdb, Registry: &jobs, Capsules: []actors.Capsule{
		{Name: "ruby", Concurrency: 2},
		{Name: "go", Concurrency: 2, Queues: actors.Strict{"gq"}, Wire: goworkers.New(goworkers.Options{})},
	}})
	testkit.Await(t, "all have run", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(ran) == 2*n
	})
	if dead := rdb.ZRange(ctx, "dead", 0, -1).Val(); len(dead) > 0 {
		t.Errorf("dead are %q", dead)
	}
	for i := range n {
		p := ran[fmt.Sprintf(`Go [{"n":%d}]`, i)]
		if p == nil {
			t.Fatalf("job %d of go-workers did not run with its object: %v", i, ran)
		}
		for _, key := range []string{"retry", "created_at", "jid", "at"} { // retry would be a retry that nobody asked for
			if raw, ok := p.Get(key); ok {
				t.Errorf("job %d of go-workers got %s: %s", i, key, raw)
			}
		}
		p = ran[fmt.Sprintf("Ruby [%d]", i)]
		if retry, _ := p.Get("retry"); string(retry) != "true" || p.JID() == "" {
			t.Errorf("job %d of Sidekiq was promoted as one of go-workers: %s", i, p.Bytes())
		}
	}
}
