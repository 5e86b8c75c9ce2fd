package client_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
)

// noServer answers pipelines in the place of a server: after a millisecond, and
// not before gate is closed. It refuses the queue "odd".
type noServer struct {
	gate        chan struct{}
	calls, jobs atomic.Int64
}

func (s *noServer) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (s *noServer) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (s *noServer) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) (err error) {
		s.calls.Add(1)
		time.Sleep(time.Millisecond) // in a bubble: a round trip
		<-s.gate
		for _, cmd := range cmds {
			if cmd.Name() == "lpush" {
				s.jobs.Add(int64(len(cmd.Args()) - 2))
			}
			if cmd.Args()[1] == "queue:odd" {
				err = errors.New("WRONGTYPE")
				cmd.SetErr(err)
			}
		}
		return err
	}
}

// gathering returns a client whose next pushes are gathered until open.
func gathering(t *testing.T) (c *client.Client, s *noServer, open func()) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = rdb.Close() })
	s = &noServer{gate: make(chan struct{})}
	rdb.AddHook(s)
	c = client.New(rdb)
	var first sync.WaitGroup
	for range alone {
		first.Go(func() {
			if _, err := c.Push(t.Context(), note{"alone", 1}); err != nil {
				t.Error(err)
			}
		})
	}
	synctest.Wait()
	return c, s, func() {
		close(s.gate)
		first.Wait()
	}
}

// One processor, so that nothing but the scheduler's order decides who joins.
func TestCallersThatACallWakesTravelInTheNextOneTogether(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const tries, callers = 20, 40
	var calls int64
	for range tries {
		synctest.Test(t, func(t *testing.T) {
			c, s, open := gathering(t)
			var all sync.WaitGroup
			for i := range callers {
				all.Go(func() {
					for range 2 {
						if _, err := c.Push(t.Context(), note{"x", i}); err != nil {
							t.Error(err)
						}
					}
				})
			}
			synctest.Wait()
			open()
			all.Wait()
			calls += s.calls.Load() - alone
		})
	}
	// Two a try, or one more where the scheduler did not run all of them first. If
	// the callers find nothing on its way, some of them travel alone.
	if calls > 5*tries {
		t.Errorf("%d callers with two pushes each: %d calls in %d tries", callers, calls, tries)
	}
}

// One processor and many tries, since what must not happen comes by chance.
func TestFewPushersTravelAloneAgainWhenManyHaveGone(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const callers, few, rounds = 40, 2, 20
	for range 40 {
		synctest.Test(t, func(t *testing.T) {
			c, s, open := gathering(t)
			var all sync.WaitGroup
			for i := range callers {
				all.Go(func() {
					for round := 0; round == 0 || i < few && round <= rounds; round++ {
						if _, err := c.Push(t.Context(), note{"x", i}); err != nil {
							t.Error(err)
						}
					}
				})
			}
			synctest.Wait()
			open()
			all.Wait()
			if calls := s.calls.Load() - alone; calls < few*rounds/2 {
				t.Errorf("%d calls for %d rounds of %d pushers: they wait for each other", calls, rounds, few)
			}
		})
	}
}

func TestAPushThatStaysBehindLeavesTheOthersTheirErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s, open := gathering(t)
		ctx, cancel := context.WithCancel(t.Context())
		queues := []string{"even", "late", "odd", "even", "late", "odd"}
		errs := make([]error, len(queues))
		var all sync.WaitGroup
		for i, queue := range queues {
			all.Go(func() {
				ctx := ctx
				if queue != "late" {
					ctx = t.Context()
				}
				_, errs[i] = c.Push(ctx, note{"x", i}, client.Queue(queue))
			})
			synctest.Wait() // in this order
		}
		cancel()
		synctest.Wait()
		open()
		all.Wait()
		if calls, jobs := s.calls.Load()-alone, s.jobs.Load()-alone; calls != 1 || jobs != 4 {
			t.Errorf("%d jobs in %d calls, want 4 in one", jobs, calls)
		}
		got := make([]string, len(errs))
		for i, err := range errs {
			switch {
			case errors.Is(err, context.Canceled):
				got[i] = "late"
			case err == nil:
				got[i] = "even"
			case strings.Contains(err.Error(), "WRONGTYPE"):
				got[i] = "odd"
			}
		}
		if !slices.Equal(got, queues) {
			t.Errorf("errors: %v", errs)
		}
	})
}
