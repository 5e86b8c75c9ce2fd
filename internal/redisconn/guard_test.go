package redisconn

import (
	"context"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// boom is a hook that panics at each call, or at each dial.
type boom struct{ dial bool }

func (b boom) DialHook(next redis.DialHook) redis.DialHook {
	if !b.dial {
		return next
	}
	return func(context.Context, string, string) (net.Conn, error) { panic("dial") }
}

func (b boom) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	if b.dial {
		return next
	}
	return func(context.Context, redis.Cmder) error { panic("process") }
}

func (b boom) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	if b.dial {
		return next
	}
	return func(ctx context.Context, cmds []redis.Cmder) error {
		_ = next(ctx, cmds)
		panic("pipeline")
	}
}

// A panic in what the application adds to a client of the daemon's is an error of the call, wherever it
// is made: also in the goroutines of go-redis, of a subscription and of a cluster's pipeline.
func TestPanicsOfTheApplicationAreErrors(t *testing.T) {
	single, _ := redistest.New(t)
	cluster, _ := redistest.NewCluster(t)
	onNodes := func(rdb redis.UniversalClient) {
		rdb.(*redis.ClusterClient).OnNewNode(func(node *redis.Client) { node.AddHook(boom{}) })
	}
	onConnected := *single.Options()
	onConnected.OnConnect = func(context.Context, *redis.Conn) error { panic("connected") }
	connecting := redis.NewClient(&onConnected)
	t.Cleanup(func() { _ = connecting.Close() })
	add := func(b boom) func(redis.UniversalClient) {
		return func(rdb redis.UniversalClient) { rdb.AddHook(b) }
	}
	for name, c := range map[string]struct {
		from redis.UniversalClient
		prep func(redis.UniversalClient)
		sub  bool // subscriptions meet it, too
	}{
		"a call":               {single, add(boom{}), false},
		"a dial":               {single, add(boom{dial: true}), true},
		"OnConnect":            {connecting, func(redis.UniversalClient) {}, true},
		"a call of a cluster":  {cluster, add(boom{}), false},
		"the nodes of cluster": {cluster, onNodes, false},
	} {
		t.Run(name, func(t *testing.T) {
			rdb, err := Derive(c.from, Need{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = rdb.Close() }()
			c.prep(rdb)
			require := func(what string, err error) {
				t.Helper()
				if e, ok := errchain.As[*PanicError](err); !ok || len(e.Stack) == 0 {
					t.Errorf("%s: %v, expected a *PanicError", what, err)
				}
				if f := Classify(err); f != Outage || NotSent(err) {
					t.Errorf("%s is %v, not sent %v", what, f, NotSent(err))
				}
			}
			require("a command", rdb.Set(t.Context(), "a", 1, 0).Err())
			pipe := rdb.Pipeline()
			cmds := []redis.Cmder{pipe.Set(t.Context(), "a", 1, 0), pipe.Set(t.Context(), "b", 1, 0), pipe.Set(t.Context(), "c", 1, 0)}
			_, err = pipe.Exec(t.Context())
			require("a pipeline", err)
			for _, cmd := range cmds {
				require("a command of a pipeline", cmd.Err())
			}
			if c.sub {
				s := rdb.Subscribe(t.Context(), "x")
				_, err := s.Receive(t.Context())
				require("a subscription", err)
				_ = s.Close()
			}
		})
	}
}
