package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// alone is how many pushes travel alone.
const alone = 2

// stopwatch counts pipelines and, while shut, keeps them from leaving.
type stopwatch struct {
	mu    sync.Mutex
	calls int
	gate  chan struct{}
	held  chan struct{}
}

func (s *stopwatch) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (s *stopwatch) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (s *stopwatch) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		s.mu.Lock()
		s.calls++
		s.mu.Unlock()
		s.held <- struct{}{}
		<-s.gate
		return next(ctx, cmds)
	}
}

func TestPushesOfManyGoroutinesTravelTogether(t *testing.T) {
	rdb, _ := redistest.New(t)
	check := rdb
	own := *rdb.Options()
	pushing := redis.NewClient(&own)
	defer func() { _ = pushing.Close() }()
	gate := &stopwatch{gate: make(chan struct{}), held: make(chan struct{}, 1000)}
	pushing.AddHook(gate)
	c := client.New(pushing)

	const n = 100
	jids := make([]string, n)
	var all sync.WaitGroup
	push := func(i int) {
		all.Go(func() {
			var err error
			if jids[i], err = c.Push(t.Context(), note{"x", i}, client.Queue(fmt.Sprintf("q%d", i%3))); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range alone {
		push(i)
		<-gate.held
	}
	for i := alone; i < n; i++ {
		push(i)
	}
	close(gate.gate)
	all.Wait()
	if gate.calls >= n/2 {
		t.Errorf("%d pushes took %d calls", n, gate.calls)
	}
	seen := map[string]bool{}
	for q := range 3 {
		jobs := check.LRange(t.Context(), fmt.Sprintf("queue:q%d", q), 0, -1).Val()
		for _, job := range jobs {
			for i, jid := range jids {
				if strings.Contains(job, jid) && strings.Contains(job, fmt.Sprintf(`"args":["x",%d]`, i)) && i%3 == q {
					seen[jid] = true
				}
			}
		}
	}
	if len(seen) != n {
		t.Errorf("%d of %d jobs are in their queue", len(seen), n)
	}
}

func TestAQueueThatRefusesDoesNotFailTheOthersOfItsCall(t *testing.T) {
	rdb, _ := redistest.New(t)
	rdb.Set(t.Context(), "queue:odd", "a string", 0)
	own := *rdb.Options()
	pushing := redis.NewClient(&own)
	defer func() { _ = pushing.Close() }()
	gate := &stopwatch{gate: make(chan struct{}), held: make(chan struct{}, 1000)}
	pushing.AddHook(gate)
	c := client.New(pushing)
	var all sync.WaitGroup
	errs := make([]error, 60)
	for i := range errs {
		all.Go(func() {
			queue := "even"
			if i%2 == 1 {
				queue = "odd"
			}
			_, errs[i] = c.Push(t.Context(), note{"x", i}, client.Queue(queue))
		})
	}
	for range alone {
		<-gate.held
	}
	close(gate.gate)
	all.Wait()
	for i, err := range errs {
		if odd := i%2 == 1; odd != (err != nil) {
			t.Errorf("push %d: %v", i, err)
		}
		if err != nil && !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Errorf("push %d: %v", i, err)
		}
	}
	harness.Equal(t, "jobs in the good queue", rdb.LLen(t.Context(), "queue:even").Val(), 30)
}

func TestAPushThatGivesUpBeforeItLeftIsNotPushed(t *testing.T) {
	rdb, _ := redistest.New(t)
	own := *rdb.Options()
	pushing := redis.NewClient(&own)
	defer func() { _ = pushing.Close() }()
	gate := &stopwatch{gate: make(chan struct{}), held: make(chan struct{}, 1000)}
	pushing.AddHook(gate)
	c := client.New(pushing)
	var all sync.WaitGroup
	for i := range alone {
		all.Go(func() { _, _ = c.Push(t.Context(), note{"early", i}) })
		<-gate.held
	}
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		_, err := c.Push(ctx, note{"late", 1})
		result <- err
	}()
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("gave %v", err)
	}
	close(gate.gate)
	all.Wait()
	if _, err := c.Push(t.Context(), note{"after", 1}); err != nil {
		t.Error(err)
	}
	jobs := strings.Join(rdb.LRange(t.Context(), "queue:default", 0, -1).Val(), "\n")
	if strings.Contains(jobs, "late") || strings.Count(jobs, "early") != alone || !strings.Contains(jobs, "after") {
		t.Errorf("pushed:\n%s", jobs)
	}
}
