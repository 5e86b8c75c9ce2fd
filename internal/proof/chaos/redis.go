package chaos

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// servers are a master and its replica, that take turns.
type servers struct {
	master, replica *testkit.Server
	busy            bool                   // a fault has one of them in its hands
	addr            atomic.Pointer[string] // where clients are led to; nil while there is no master
}

// memory is what Redis still had when it was back. It may have forgotten what it did between since, zero for all that it
// ever did, and died.
type memory struct {
	since, died time.Time
	left        map[int]string
}

// options are those of a client that is led to the master of the time.
func (v *servers) options() *redis.Options {
	var d net.Dialer
	return &redis.Options{MaxRetries: -1, Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
		addr := v.addr.Load()
		if addr == nil {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}
		return d.DialContext(ctx, "tcp", *addr)
	}}
}

// serve starts the two.
func (s *storm) serve() {
	s.t.Helper()
	args := []string{"--repl-diskless-sync-delay", "0"}
	if s.cfg.Fsync != "no" {
		args = append(args, "--appendonly", "yes", "--appendfsync", s.cfg.Fsync)
	}
	v := &s.redis
	v.master, v.replica = testkit.NewServer(s.t, args...), testkit.NewServer(s.t, args...)
	s.follow()
	s.lead()
	s.rdb = redis.NewClient(v.options())
	s.t.Cleanup(func() { _ = s.rdb.Close() })
}

// lead leads clients to the master.
func (s *storm) lead() {
	addr := s.redis.master.Options().Addr
	s.redis.addr.Store(&addr)
}

// follow makes the second server a replica of the first.
func (s *storm) follow() {
	s.t.Helper()
	host, port, _ := net.SplitHostPort(s.redis.master.Options().Addr)
	if err := s.redis.replica.Client.ReplicaOf(context.Background(), host, port).Err(); err != nil {
		s.t.Fatalf("replicaof: %v", err)
	}
}

// inSync reports whether the replica has all that the master had when it was asked, on its disk too if it has one: a
// replica writes its file anew behind a whole copy.
func (s *storm) inSync() bool {
	ctx := context.Background()
	conn := s.redis.master.Client.Conn()
	defer func() { _ = conn.Close() }()
	if conn.Set(ctx, "chaos:written", time.Now().UnixNano(), 0).Err() != nil {
		return false
	}
	if n, err := conn.Wait(ctx, 1, 200*time.Millisecond).Result(); err != nil || n == 0 {
		return false
	}
	info, err := s.redis.replica.Client.Info(ctx).Result()
	return err == nil && strings.Contains(info, "aof_rewrite_in_progress:0") && strings.Contains(info, "aof_rewrite_scheduled:0") &&
		strings.Contains(info, "\nloading:0") && strings.Contains(info, "master_link_status:up")
}

// killRedis kills the master, and starts it again.
func (s *storm) killRedis(sp *span) {
	v := &s.redis
	v.busy, sp.hits = true, everybody
	v.master.Kill()
	s.after(s.between(100*time.Millisecond, 1500*time.Millisecond), func() {
		v.master.Restart()
		if s.cfg.Fsync != "always" {
			s.remember(time.Time{}, sp.from)
		}
		sp.to, v.busy = time.Now(), false
	})
}

// failOver cuts the replica off, kills the master a little later, and promotes the replica: it has all that was answered
// before sp.from, and nothing of what the master has done alone. Nobody reaches it until it has told what it has. The old
// master comes back as its replica.
func (s *storm) failOver(sp *span) {
	s.t.Helper()
	v, ctx := &s.redis, context.Background()
	v.busy, sp.hits = true, everybody
	v.replica.Pause()
	if err := v.master.Client.Do(ctx, "CLIENT", "KILL", "TYPE", "replica").Err(); err != nil {
		s.t.Fatalf("cut the replica off: %v", err)
	}
	s.after(s.between(20*time.Millisecond, 1000*time.Millisecond), func() {
		away := &span{what: "promotion", hits: everybody, from: time.Now()}
		s.spans = append(s.spans, away)
		v.addr.Store(nil)
		v.master.Kill()
		s.after(s.between(100*time.Millisecond, 2*Lease), func() {
			v.replica.Resume()
			harness.AwaitFor(s.t, 30*time.Second, "the replica is promoted", func() bool { // it may be reading its data once more
				err := v.replica.Client.ReplicaOf(ctx, "NO", "ONE").Err()
				if err != nil && !redis.HasErrorPrefix(err, "LOADING") {
					s.t.Fatalf("promote the replica: %v", err)
				}
				return err == nil
			})
			v.master, v.replica = v.replica, v.master
			sp.forgot = s.remember(sp.from, time.Now()) // an answer of the old master may be noted late
			s.lead()
			sp.to, away.to = time.Now(), time.Now()
			v.replica.Restart()
			s.follow()
			v.busy = false
		})
	})
}

func everybody(*daemon) bool { return true }

// remember notes what the master has, which may have forgotten what was done meanwhile.
func (s *storm) remember(since, died time.Time) *memory {
	s.t.Helper()
	left, err := s.system.Left(context.Background(), s.redis.master.Client)
	if err != nil {
		s.t.Fatalf("what Redis has when it is back: %v", err)
	}
	m := &memory{since, died, left}
	s.memory = append(s.memory, m)
	return m
}
