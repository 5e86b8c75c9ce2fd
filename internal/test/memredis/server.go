// Package memredis is a Redis inside a test: miniredis without a port, with what
// it lacks of blocked moves, and usable in a testing/synctest bubble.
package memredis

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Server is one such Redis.
type Server struct {
	redis   *miniredis.Miniredis
	blocked *blocked

	mu    sync.Mutex
	down  bool
	conns []net.Conn
}

// New starts a Server, which is stopped at the end of the test. In a bubble it
// must be made, and end, inside that bubble.
func New(tb testing.TB) *Server {
	tb.Helper()
	s := &Server{redis: miniredis.NewMiniRedis()}
	s.redis.ClockTTL(true)       // keys age by the clock, which in a bubble is the bubble's
	first, err := s.redis.Dial() // it starts without a port
	if err != nil {
		tb.Fatal(err)
	}
	_ = first.Close()
	s.blocked = newBlocked(s.redis)
	tb.Cleanup(func() {
		s.Resume()
		s.Kill()
		s.redis.Close()
	})
	return s
}

// Options are those of a client of this Redis; the address is never dialled.
func (s *Server) Options() *redis.Options {
	return &redis.Options{
		Addr: "127.0.0.1:0", Dialer: s.dial,
		Protocol: 2, DisableIdentity: true, MaxRetries: -1, ReadTimeout: time.Hour,
	}
}

func (s *Server) dial(context.Context, string, string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, errors.New("connection refused: the test has killed this Redis")
	}
	c := s.blocked.dial()
	s.conns = append(s.conns, c)
	return c, nil
}

// SetError makes every command end with an error; the empty text ends that.
func (s *Server) SetError(text string) { s.blocked.refuse(text) }

// SetTime stops the server's clock at t.
func (s *Server) SetTime(t time.Time) { s.redis.SetTime(t) }

// Kill closes every connection and refuses new ones. The data stay.
func (s *Server) Kill() {
	s.mu.Lock()
	conns := s.conns
	s.conns, s.down = nil, true
	s.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}

// Restart starts the server again after Kill.
func (s *Server) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = false
}

// Pause keeps every command waiting until Resume.
func (s *Server) Pause() { s.blocked.pause() }

// Resume ends Pause.
func (s *Server) Resume() { s.blocked.resume() }
