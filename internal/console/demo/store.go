package demo

import (
	"fmt"
	"math"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/redisconn"
)

// store is the Redis of the demo.
type store struct {
	client redis.UniversalClient // of the producer and the census; the daemon opens its own
	server *miniredis.Miniredis
	addr   string // host:port/db, for people

	// Limits of the dead set. An embedded Redis is in the memory of this process and is
	// kept small. In a real one, dead jobs of the demo must not push out those of others.
	deadMax     int
	deadTimeout time.Duration
}

// openStore starts an embedded Redis if url is empty; else it only reads url.
func openStore(url string) (*store, error) {
	s := &store{deadMax: math.MaxInt32, deadTimeout: 100 * 365 * 24 * time.Hour}
	if url == "" {
		// a real port, so that redis-cli can look inside
		s.server = miniredis.NewMiniRedis()
		s.server.ClockTTL(true) // keys age: leases, locks, heartbeats
		if err := s.server.StartAddr("127.0.0.1:0"); err != nil {
			return nil, fmt.Errorf("start the embedded redis: %w", err)
		}
		url = "redis://" + s.server.Addr() + "/0"
		s.deadMax, s.deadTimeout = 1000, time.Hour
	}
	var err error
	if s.client, err = redisconn.FromURL(url, redisconn.Need{}); err != nil {
		s.close()
		return nil, err
	}
	s.addr = redisconn.Addr(s.client)
	return s, nil
}

func (s *store) embedded() bool { return s.server != nil }

// place says where the Redis is.
func (s *store) place() string {
	if s.embedded() {
		return fmt.Sprintf("an embedded redis (redis-cli -p %s)", s.server.Port())
	}
	return "redis " + s.addr
}

func (s *store) close() {
	if s.client != nil {
		_ = s.client.Close()
	}
	if s.server != nil {
		s.server.Close()
	}
}
