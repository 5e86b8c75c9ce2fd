package sched

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/push"

	"github.com/troupehq/troupe/internal/keys"
)

// invalidations is the channel on which Redis tells RESP2 connections what
// RESP3 ones get as a push.
const invalidations = "__redis__:invalidate"

// ear is a subscribed connection on which Redis tells of changes: of the keys
// that another connection has read with tracking on, or on channels. That it is
// subscribed to a channel of its own is at the same time the sign of life of
// its process, which ends with the process at once.
type ear struct {
	ps     *redis.PubSub
	rung   chan struct{} // capacity 1: something may have changed
	failed chan error    // capacity 1
	cancel context.CancelFunc
	done   sync.WaitGroup
	asked  atomic.Bool // an echo was asked for, and has not come
}

// listen subscribes to the channel own. bells receives pushes from the client,
// whose handler it is.
func listen(ctx context.Context, rdb *redis.Client, bells *bells, own string) (*ear, error) {
	ctx, cancel := context.WithCancel(ctx)
	e := &ear{rung: make(chan struct{}, 1), failed: make(chan error, 1), cancel: cancel}
	e.ps = rdb.Subscribe(ctx, own, invalidations)
	for range 2 { // the server has seen both before a seat is taken
		if _, err := e.ps.ReceiveTimeout(ctx, callTimeout); err != nil {
			_ = e.ps.Close()
			cancel()
			return nil, fmt.Errorf("subscribe: %w", err)
		}
	}
	bells.ear.Store(e)
	e.done.Go(func() {
		for {
			msg, err := e.ps.Receive(ctx)
			if err != nil {
				e.failed <- err
				return
			}
			switch m := msg.(type) {
			case *redis.Subscription:
				e.ring() // what came before it was not heard
			case *redis.Message:
				if m.Channel == own {
					e.asked.Store(false)
				}
				if m.Channel == keys.Bell || m.Channel == invalidations && concerns(m.PayloadSlice) {
					e.ring()
				}
			}
		}
	})
	return e, nil
}

func (e *ear) ring() {
	select {
	case e.rung <- struct{}{}:
	default:
	}
}

// errDeaf is what an echo says that has not come by the time of the next: nothing
// has closed the connection, and nothing comes through.
var errDeaf = fmt.Errorf("the listening connection is half open: %w", os.ErrDeadlineExceeded)

// close ends the connection and waits for the goroutine that reads it.
func (e *ear) close() {
	e.cancel()
	_ = e.ps.Close()
	e.done.Wait()
}

// concerns tells whether a list of changed keys has one of the two sets in it.
func concerns(changed []string) bool {
	return slices.Contains(changed, keys.Schedule) || slices.Contains(changed, keys.Retry)
}

// bells hands the pushes of a client to its present ear. It is called on the
// goroutine that reads the connection and never waits.
type bells struct{ ear atomic.Pointer[ear] }

// HandlePushNotification takes ["invalidate", [key, …]], or nil for the keys
// when the whole database was flushed.
func (b *bells) HandlePushNotification(_ context.Context, _ push.NotificationHandlerContext, msg []any) error {
	e := b.ear.Load()
	if e == nil || len(msg) < 2 {
		return nil
	}
	changed, ok := msg[1].([]any)
	if !ok {
		e.ring()
		return nil
	}
	for _, key := range changed {
		if name, _ := key.(string); concerns([]string{name}) {
			e.ring()
			return nil
		}
	}
	return nil
}

// callTimeout bounds every call of a watcher; one that takes longer has lost Redis.
const callTimeout = 3 * time.Second
