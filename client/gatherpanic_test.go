package client_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// bad is a hook that panics in calls that carry several jobs.
type bad struct{ struck *atomic.Int64 }

func (bad) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (bad) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (b bad) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if cmd.Name() == "lpush" && len(cmd.Args()) > 3 {
				b.struck.Add(1)
				panic("a bug in a hook")
			}
		}
		return next(ctx, cmds)
	}
}

// Pushes that travel together do so in a goroutine of the client's: a hook that panics there ends
// neither the process nor leaves one of them waiting. Each has an error, or its job in Redis.
func TestAPanicInAGatheredCall(t *testing.T) {
	rdb, _ := redistest.New(t)
	var struck atomic.Int64
	rdb.AddHook(bad{&struck})
	c := client.New(rdb)
	var pushed, failed atomic.Int64
	for round := 0; struck.Load() == 0; round++ {
		if round == 1000 {
			t.Fatal("no call has carried several jobs")
		}
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				_, err := c.Push(t.Context(), note{"x", 1})
				if err == nil {
					pushed.Add(1)
					return
				}
				failed.Add(1)
				if u, ok := errchain.As[*client.UnavailableError](err); !ok || !u.Maybe || !strings.Contains(err.Error(), "a hook of the client has panicked") || !strings.Contains(err.Error(), "a bug in a hook") {
					t.Errorf("%T %v", err, err)
				}
			})
		}
		all.Wait()
	}
	if n := rdb.LLen(t.Context(), "queue:default").Val(); failed.Load() < 2 || n != pushed.Load() {
		t.Errorf("%d pushed, %d failed, %d in Redis", pushed.Load(), failed.Load(), n)
	}
}
