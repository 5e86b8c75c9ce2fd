package sched_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/sched"
	"github.com/troupehq/troupe/testkit"
)

// halfOpen is a connection on which nothing arrives once it has subscribed and deaf
// is set.
type halfOpen struct {
	net.Conn
	deaf *atomic.Bool
	ear  atomic.Bool
}

// Write knows the command from the script that has the word in it.
func (c *halfOpen) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("\nsubscribe\r")) {
		c.ear.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *halfOpen) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.ear.Load() || !c.deaf.Load() {
			return n, err
		}
	}
}

// Only the connection that listens is half open: nothing else would ever tell.
func TestAWatcherGivesUpAnEarThatIsHalfOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var deaf atomic.Bool
		options := testkit.NewMemory(t).Options()
		dial := options.Dialer
		options.MaxRetries = -1
		options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			return &halfOpen{Conn: conn, deaf: &deaf}, err
		}
		rdb := redis.NewClient(options)
		defer func() { _ = rdb.Close() }()
		w := startWatch(t, rdb, "host:1:a")
		synctest.Wait()
		time.Sleep(30 * time.Second)
		if n, _, _ := w.count(sched.Elected); n != 1 {
			t.Fatalf("elected %d times", n)
		}
		select {
		case err := <-w.done:
			t.Fatalf("Watch has ended: %v", err)
		default:
		}
		deaf.Store(true)
		time.Sleep(15 * time.Second)
		select {
		case err := <-w.done:
			if !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "half open") {
				t.Errorf("it ended with %v", err)
			}
		default:
			t.Error("it still listens after 15 s")
			_ = w.stop()
		}
	})
}
