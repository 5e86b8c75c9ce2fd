package sched_test

import (
	"encoding/json"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupehq/troupe/actors/internal/sched"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// A debounced push at the moment at which its job is promoted either changes the job or makes a new one: what was pushed
// last always comes to the queue, and nothing comes twice.
func TestDebouncedPushesWhileTheyArePromoted(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	s := sched.New(sched.Config{Redis: rdb})
	c := client.New(rdb)
	var over atomic.Bool
	promoted := make(chan struct{})
	go func() {
		defer close(promoted)
		for !over.Load() {
			if _, err := s.Promote(ctx, keys.Schedule); err != nil {
				t.Errorf("promote: %v", err)
				return
			}
		}
	}()
	const pushes = 2000
	for n := range pushes {
		harness.Must(c.PushClass(ctx, "X", []any{n}, client.Debounce("k", time.Duration(n%3+1)*200*time.Microsecond, 0)))(t)
	}
	over.Store(true)
	<-promoted
	harness.Await(t, "the last is promoted", func() bool { drain(t, s, keys.Schedule); return rdb.ZCard(ctx, "schedule").Val() == 0 })
	var numbers []int
	jids := map[string]int{}
	for _, raw := range slices.Backward(rdb.LRange(ctx, "queue:default", 0, -1).Val()) {
		p := parse(t, raw)
		var args [1]int
		harness.Check(t, json.Unmarshal(p.Args(), &args))
		numbers = append(numbers, args[0])
		if jids[p.JID()]++; jids[p.JID()] > 1 {
			t.Errorf("twice in the queue: %s", raw)
		}
	}
	if !slices.IsSorted(numbers) || len(slices.Compact(slices.Clone(numbers))) != len(numbers) || numbers[len(numbers)-1] != pushes-1 {
		t.Errorf("in the queue: %v", numbers)
	}
	t.Logf("%d pushes made %d jobs", pushes, len(numbers))
}
