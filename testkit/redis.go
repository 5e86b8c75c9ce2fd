package testkit

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/redistest"
)

// Redis returns a client of a clean database of a real redis-server, which is
// started once per test binary and dies with it. Without a redis-server in the
// PATH the test is skipped loudly, or fails where TROUPE_NO_SKIP or CI is set.
func Redis(tb testing.TB) *redis.Client {
	tb.Helper()
	c, _ := redistest.New(tb)
	return c
}

// Memory is a Redis inside the test: no port, no files, and usable in a
// testing/synctest bubble. It is miniredis, which is not Redis in everything:
// it has no roles, no memory limit and no cluster.
type Memory struct {
	*miniredis.Miniredis
	Client *redis.Client // closed at the end of the test

	blocked *blocked

	mu    sync.Mutex
	conns []net.Conn
}

// NewMemory starts a Memory, stopped at the end of the test. In a bubble it must
// be made, and end, inside that bubble.
func NewMemory(tb testing.TB) *Memory {
	tb.Helper()
	m := &Memory{Miniredis: miniredis.NewMiniRedis()}
	m.blocked = watch(m.Miniredis)
	m.Client = redis.NewClient(m.Options())
	m.ClockTTL(true) // keys age by the clock, which in a bubble is the bubble's
	tb.Cleanup(func() {
		_ = m.Client.Close()
		m.Cut()
		m.Close()
	})
	return m
}

// Options are those of a client of this Redis; the address is never dialled.
func (m *Memory) Options() *redis.Options {
	return &redis.Options{
		Addr: "127.0.0.1:0",
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			raw, end, err := m.blocked.dial()
			if err != nil {
				return nil, err
			}
			c := &watched{raw, end}
			m.mu.Lock()
			m.conns = append(m.conns, c)
			m.mu.Unlock()
			return newRoomy(c), nil
		},
		Protocol: 2, DisableIdentity: true, MaxRetries: -1, ReadTimeout: time.Hour,
	}
}

// SetError has every command answered by an error; the empty text ends that.
func (m *Memory) SetError(text string) { m.blocked.refuse(text) }

// Cut closes every connection, as a network failure would.
func (m *Memory) Cut() {
	m.mu.Lock()
	conns := m.conns
	m.conns = nil
	m.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}
