// Package redistest gives tests a clean database of a real redis-server: one
// server per test binary, started on demand on a free loopback port and killed
// with the binary.
package redistest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Databases is the number of databases of the shared server; tests take them
// in turn, flushed.
const Databases = 4096

var shared = sync.OnceValues(func() (*Server, error) { return start(nil) })

var nextDB atomic.Int64

// Server is one redis-server process of this test binary.
type Server struct {
	Addr string // 127.0.0.1:PORT
	Dir  string
	cmd  *exec.Cmd
	args []string
}

// URL is the redis:// URL of a database.
func (s *Server) URL(db int) string { return fmt.Sprintf("redis://%s/%d", s.Addr, db) }

// New returns a client of a clean database of the shared server, closed at the
// end of the test, and the URL of that database.
func New(tb testing.TB) (*redis.Client, string) {
	tb.Helper()
	s, err := shared()
	if err != nil {
		Missing(tb, err)
	}
	db := int(nextDB.Add(1) % Databases)
	c := redis.NewClient(&redis.Options{Addr: s.Addr, DB: db, MaxRetries: -1})
	if err := c.FlushDB(context.Background()).Err(); err != nil {
		tb.Fatalf("flush database %d: %v", db, err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c, s.URL(db)
}

// Missing ends a test for lack of a real part: a failure under CI (or with
// TROUPE_NO_SKIP set), a loud skip elsewhere.
func Missing(tb testing.TB, err error) {
	tb.Helper()
	if os.Getenv("TROUPE_NO_SKIP") != "" || os.Getenv("CI") != "" {
		tb.Fatalf("a real part is missing and skipping is off: %v", err)
	}
	tb.Skipf("SKIPPED, a real part is missing: %v (make test installs it on Debian)", err)
}

// Start runs a redis-server of the test's own, for tests that restart, pause or
// configure it; args are appended to its command line.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	s, err := start(args)
	if err != nil {
		Missing(tb, err)
	}
	tb.Cleanup(func() { s.Kill(); _ = os.RemoveAll(s.Dir) })
	return s
}

func start(args []string) (*Server, error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "troupe-redis-")
	if err != nil {
		return nil, err
	}
	s := &Server{Dir: dir, args: args}
	for range 5 {
		port := freePort()
		if port == 0 {
			break
		}
		s.Addr = loopback(port)
		if err = s.Restart(); err == nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("redis-server did not start in %s", dir)
}

// freePort returns a random port that nobody listens on, 0 if there is none. It
// is below those that a system gives to whoever asks for any port: it would give
// away that of a server that is down until its Restart. The port 10,000 above is
// free as well, in case that the server is a cluster's and needs a bus.
func freePort() int {
	for range 1000 {
		if port := 10000 + rand.IntN(10000); isFree(port) && isFree(port+10000) {
			return port
		}
	}
	return 0
}

func isFree(port int) bool {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", loopback(port))
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}

func loopback(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

// Restart starts the server (again) at the same address with the same
// directory: what was not persisted is gone.
func (s *Server) Restart() error {
	_, port, _ := net.SplitHostPort(s.Addr)
	args := append([]string{
		"--port", port, "--bind", "127.0.0.1", "--dir", s.Dir,
		"--save", "", "--appendonly", "no", "--databases", strconv.Itoa(Databases),
		"--logfile", filepath.Join(s.Dir, "redis.log"),
	}, s.args...)
	s.cmd = exec.CommandContext(context.Background(), "redis-server", args...)
	s.cmd.SysProcAttr = childAttr()
	if err := startOnThread(s.cmd); err != nil {
		return err
	}
	c := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1})
	defer func() { _ = c.Close() }()
	deadline := time.Now().Add(10 * time.Second)
	for {
		err := c.Ping(context.Background()).Err()
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			s.Kill()
			return err
		}
		time.Sleep(5 * time.Millisecond) // no signal tells that a server listens
	}
	// the port may have been taken by somebody else's server in between
	if got, err := c.ConfigGet(context.Background(), "dir").Result(); err != nil || got["dir"] != s.Dir {
		s.Kill()
		return fmt.Errorf("another redis-server answers at %s", s.Addr)
	}
	return nil
}

// Kill ends the server with SIGKILL and waits for it.
func (s *Server) Kill() {
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// Signal sends sig to the server process.
func (s *Server) Signal(sig os.Signal) error { return s.cmd.Process.Signal(sig) }
