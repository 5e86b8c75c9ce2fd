package client_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// wrapped is a client that is none of go-redis' own: the buffer sends by it, with its hooks.
type wrapped struct{ *redis.Client }

// A panic of the application's code in the goroutine that sends the buffer, in a dialer or in a hook, is an error of that
// try: nothing dies, and the jobs are sent in the end.
func TestAPanicUnderTheBufferEndsNothing(t *testing.T) {
	for name, wrap := range map[string]func(*redis.Client) redis.UniversalClient{
		"dialer": func(c *redis.Client) redis.UniversalClient { return c },
		"hook":   func(c *redis.Client) redis.UniversalClient { return wrapped{c} },
	} {
		t.Run(name, func(t *testing.T) {
			rdb := testkit.Redis(t)
			var away, panics atomic.Bool
			var struck atomic.Int64
			away.Store(true)
			o := *rdb.Options()
			o.MaxRetries = -1
			o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				switch {
				case panics.Load():
					struck.Add(1)
					panic("a bug of the application's")
				case away.Load():
					return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("connection refused")}
				}
				var d net.Dialer
				return d.DialContext(ctx, network, addr)
			}
			own := redis.NewClient(&o)
			t.Cleanup(func() { _ = own.Close() })
			c := client.New(wrap(own), client.WithBuffer(100))
			for range 20 {
				harness.Must(c.PushClass(t.Context(), "Job", nil))(t)
			}
			panics.Store(true)
			if !harness.Within(time.Minute, func() bool { return struck.Load() > 2 }) {
				t.Fatal("nobody tries again after a panic")
			}
			away.Store(false)
			panics.Store(false)
			if !harness.Within(time.Minute, func() bool { return rdb.LLen(t.Context(), "queue:default").Val() == 20 }) {
				t.Errorf("%d jobs have arrived, expected 20", rdb.LLen(t.Context(), "queue:default").Val())
			}
			harness.Check(t, c.Close(t.Context()))
		})
	}
}
