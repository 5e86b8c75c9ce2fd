package testkit

import (
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/osproc"
	"github.com/troupehq/troupe/internal/test/memredis"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// Redis returns a client of a clean database of a real redis-server, which is
// started once per test binary and dies with it. Without a redis-server in the
// PATH the test is skipped loudly, or fails where TROUPE_NO_SKIP or CI is set.
func Redis(tb testing.TB) *redis.Client {
	tb.Helper()
	c, _ := redistest.New(tb)
	return c
}

// Server is a Redis of the test's own, to be killed, paused and started again. It
// ends with the test, and its data with it.
type Server struct {
	// Client is a client of database 0, closed at the end of the test.
	Client *redis.Client

	tb      testing.TB
	memory  *memredis.Server  // nil for a process
	process *redistest.Server // nil for memory
}

// NewMemory starts a Redis inside the test: it has no port and no files, and it
// works in a testing/synctest bubble, where it must be made inside the bubble. It
// is miniredis, which is not Redis in everything: it has no roles, no memory limit
// and no cluster.
func NewMemory(tb testing.TB) *Server {
	tb.Helper()
	return newServer(tb, &Server{memory: memredis.New(tb)})
}

// NewServer starts a redis-server on a loopback port with args added to its
// command line. It keeps nothing over a restart unless they say so:
//
//	testkit.NewServer(t, "--appendonly", "yes", "--appendfsync", "always")
//
// Without a redis-server in the PATH it does what Redis does.
func NewServer(tb testing.TB, args ...string) *Server {
	tb.Helper()
	return newServer(tb, &Server{process: redistest.Start(tb, args...)})
}

func newServer(tb testing.TB, s *Server) *Server {
	s.tb = tb
	s.Client = redis.NewClient(s.Options())
	tb.Cleanup(func() { _ = s.Client.Close() })
	return s
}

// Options are those of a client of database 0, for chaos.NewProxy too. The
// address of a server in memory is never dialled.
func (s *Server) Options() *redis.Options {
	if s.memory != nil {
		return s.memory.Options()
	}
	return &redis.Options{Addr: s.process.Addr, MaxRetries: -1}
}

// URL is the redis:// URL of a database of a redis-server, for other processes.
func (s *Server) URL(db int) string {
	s.tb.Helper()
	if s.memory != nil {
		s.tb.Fatal("a Redis in memory has no URL: use NewServer")
	}
	return s.process.URL(db)
}

// Kill ends the server: connections end, and new ones are refused until Restart.
// A redis-server is killed with SIGKILL; a server in memory keeps its data.
func (s *Server) Kill() {
	if s.memory != nil {
		s.memory.Kill()
		return
	}
	s.process.Kill()
}

// Restart starts a killed server again, at the same address and with what it has
// written to its disk, and waits until it answers.
func (s *Server) Restart() {
	s.tb.Helper()
	if s.memory != nil {
		s.memory.Restart()
		return
	}
	if err := s.process.Restart(); err != nil {
		s.tb.Fatalf("restart redis-server: %v", err)
	}
}

// Pause stops the server where it is: it keeps its connections and answers
// nothing until Resume.
func (s *Server) Pause() {
	s.tb.Helper()
	if s.memory != nil {
		s.memory.Pause()
		return
	}
	s.signal(osproc.Pause)
}

// Resume ends Pause.
func (s *Server) Resume() {
	s.tb.Helper()
	if s.memory != nil {
		s.memory.Resume()
		return
	}
	s.signal(osproc.Resume)
}

// SetError makes every command end with this error of Redis, as a full or a
// loading server does; the empty text ends that. It is for a server in memory; a
// chaos.Proxy does it before any server.
func (s *Server) SetError(text string) {
	s.tb.Helper()
	s.inMemory("SetError").SetError(text)
}

// SetTime stops the clock of a server in memory at t, so that it differs from the
// daemon's.
func (s *Server) SetTime(t time.Time) {
	s.tb.Helper()
	s.inMemory("SetTime").SetTime(t)
}

func (s *Server) inMemory(method string) *memredis.Server {
	s.tb.Helper()
	if s.memory == nil {
		s.tb.Fatalf("%s is for a Redis in memory: use NewMemory", method)
	}
	return s.memory
}

func (s *Server) signal(sig syscall.Signal) {
	s.tb.Helper()
	if err := s.process.Signal(sig); err != nil {
		s.tb.Fatalf("signal redis-server: %v", err)
	}
}
