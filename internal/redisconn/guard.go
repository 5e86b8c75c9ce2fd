package redisconn

import (
	"context"
	"fmt"
	"net"
	"runtime/debug"

	"github.com/redis/go-redis/v9"
)

// PanicError is a panic of the application's code that runs within a call of a client: of a hook, a
// dialer or OnConnect. Like a connection that breaks it leaves open what became of the call.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("panic in a hook of the Redis client: %v", e.Value)
}

// Try calls f. A panic in it is a *PanicError.
func Try(f func() error) (err error) {
	defer caught(&err)
	return f()
}

// caught is deferred.
func caught(err *error) {
	if v := recover(); v != nil {
		*err = &PanicError{Value: v, Stack: debug.Stack()}
	}
}

// Guard makes panics in the hooks that c gets later errors of their calls: many are made in goroutines
// of which nobody could recover, go-redis' own among them.
func Guard(c redis.UniversalClient) {
	c.AddHook(guard{})
	if cluster, ok := c.(*redis.ClusterClient); ok {
		cluster.OnNewNode(func(node *redis.Client) { node.AddHook(guard{}) })
	}
}

type guard struct{}

func (guard) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (_ net.Conn, err error) {
		defer caught(&err)
		return next(ctx, network, addr)
	}
}

func (guard) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) (err error) {
		defer caught(&err)
		return next(ctx, cmd)
	}
}

func (guard) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		returned := false
		err := Try(func() error {
			err := next(ctx, cmds)
			returned = true
			return err
		})
		if !returned {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
		}
		return err
	}
}

// onConnect is f with its panics as errors: go-redis calls it where no hook is around it.
func onConnect(f func(context.Context, *redis.Conn) error) func(context.Context, *redis.Conn) error {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, cn *redis.Conn) (err error) {
		defer caught(&err)
		return f(ctx, cn)
	}
}
