package testkit

import (
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/ossignal"
	"github.com/troupehq/troupe/internal/redistest"
)

// RedisServer is a redis-server of the test's own, on a loopback port, to be
// killed, paused and started again. It ends with the test, and its data with it.
type RedisServer struct {
	tb testing.TB
	s  *redistest.Server
}

// StartRedis starts a redis-server with args added to its command line. It keeps
// nothing over a restart unless they say so:
//
//	testkit.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
//
// Without a redis-server in the PATH the test is skipped loudly, or fails where
// TROUPE_NO_SKIP or CI is set.
func StartRedis(tb testing.TB, args ...string) *RedisServer {
	tb.Helper()
	return &RedisServer{tb, redistest.Start(tb, args...)}
}

// Addr is its address, the same after a Restart.
func (r *RedisServer) Addr() string { return r.s.Addr }

// URL is the redis:// URL of a database.
func (r *RedisServer) URL(db int) string { return r.s.URL(db) }

// Options are those of a client of database 0, for NewFaults too.
func (r *RedisServer) Options() *redis.Options { return &redis.Options{Addr: r.s.Addr, MaxRetries: -1} }

// Client returns a client of database 0, closed at the end of the test.
func (r *RedisServer) Client() *redis.Client {
	c := redis.NewClient(r.Options())
	r.tb.Cleanup(func() { _ = c.Close() })
	return c
}

// Kill ends the server with SIGKILL and waits for its end.
func (r *RedisServer) Kill() { r.s.Kill() }

// Restart starts a killed server again, at the same address, with what it has
// written to its disk, and waits until it answers.
func (r *RedisServer) Restart() {
	r.tb.Helper()
	if err := r.s.Restart(); err != nil {
		r.tb.Fatalf("restart redis-server: %v", err)
	}
}

// Pause stops the server where it is (SIGSTOP): it keeps its connections and
// answers nothing until Resume.
func (r *RedisServer) Pause() { r.signal(ossignal.Pause) }

// Resume ends Pause.
func (r *RedisServer) Resume() { r.signal(ossignal.Resume) }

func (r *RedisServer) signal(s syscall.Signal) {
	r.tb.Helper()
	if err := r.s.Signal(s); err != nil {
		r.tb.Fatalf("signal redis-server: %v", err)
	}
}
