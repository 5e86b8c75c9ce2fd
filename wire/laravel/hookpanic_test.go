package laravel_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/wire/laravel"
)

// bitter is a hook that panics after each second call of BLPOP: the wait for a token.
type bitter struct{ calls, struck *atomic.Int64 }

func (bitter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (bitter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (b bitter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if strings.EqualFold(cmd.Name(), "blpop") && b.calls.Add(1)%2 == 0 {
			b.struck.Add(1)
			panic("a bug in a hook of the user's")
		}
		return err
	}
}

// A hook of the client that panics in the wait for a push ends nothing: the jobs run, and the stop comes to its end.
func TestAHookThatPanicsInTheWaitEndsNothing(t *testing.T) {
	rdb := testkit.Redis(t)
	w := harness.Must(laravel.New(laravel.Options{}))(t)
	var r troupe.Registry
	var ran atomic.Int64
	troupe.HandleClass(&r, "Job", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { ran.Add(1); return nil }))
	hook := bitter{new(atomic.Int64), new(atomic.Int64)}
	k := testkit.Start(t, actors.Config{
		Redis: rdb, Registry: &r, OnClient: func(c redis.UniversalClient) { c.AddHook(hook) },
		Capsules: []actors.Capsule{{Concurrency: 2, Wire: w}},
	})
	php := laravel.NewClient(rdb, "")
	for i := range 5 {
		before := hook.struck.Load()
		k.Await("the hook has panicked", func() bool { return hook.struck.Load() > before })
		harness.Must(php.Push(t.Context(), laravel.Job{Queue: "default", Name: "Job", Data: i}))(t)
		k.Await("the job has run", func() bool { return ran.Load() == int64(i+1) })
	}
	if report := k.Stop(); len(report.Left) > 0 {
		t.Errorf("the stop: %s", report)
	}
}
