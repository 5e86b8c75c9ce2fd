package sched_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/sched"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
)

// thin is a connection that carries so many bytes a second to us.
type thin struct {
	net.Conn
	rate     int
	deadline time.Time
}

func (c *thin) SetReadDeadline(t time.Time) error {
	c.deadline = t
	return c.Conn.SetReadDeadline(t)
}

func (c *thin) SetDeadline(t time.Time) error {
	c.deadline = t
	return c.Conn.SetDeadline(t)
}

func (c *thin) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b[:min(len(b), 4096)])
	wait := time.Duration(n) * time.Second / time.Duration(c.rate)
	if left := time.Until(c.deadline); !c.deadline.IsZero() && left < wait {
		time.Sleep(left)
		return 0, os.ErrDeadlineExceeded
	}
	time.Sleep(wait)
	return n, err
}

// thinLink is a client on a link of rate bytes a second, with a time-out of 3 s.
func thinLink(m *testkit.Server, rate int) *redis.Client {
	o := m.Options()
	dial := o.Dialer
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return &thin{Conn: conn, rate: rate}, err
	}
	o.ReadTimeout, o.ContextTimeoutEnabled = 3*time.Second, true
	return redis.NewClient(o)
}

func sized(i, bytes int) string {
	return fmt.Sprintf(`{"retry":true,"queue":"q","class":"X","args":["%s"],"jid":"%024x","created_at":1.5}`, strings.Repeat("x", bytes), i)
}

// persist promotes as the daemon does, once a second after an error, until the set
// is empty; it counts the errors.
func persist(t *testing.T, s *sched.Scheduler, rdb *redis.Client, set string) (failed int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Minute); rdb.ZCard(t.Context(), set).Val() > 0; {
		p, err := s.Promote(t.Context(), set)
		if err != nil {
			failed++
			time.Sleep(time.Second)
		} else if !p.More {
			time.Sleep(500 * time.Millisecond)
		}
		if time.Now().After(end) {
			t.Fatalf("not within 10 minutes; the last try: %+v, %v", p, err)
		}
	}
	return failed
}

// A batch that the link does not carry within the time-out is asked for in smaller
// pieces.
func TestABatchThatIsLostComesInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		rdb := thinLink(mem, 100_000) // 300 KB in time
		defer func() { _ = rdb.Close() }()
		var members []string
		for i := range 400 {
			members = append(members, sized(i, 4000))
		}
		add(t, mem.Client, keys.Retry, time.Now().Add(-time.Minute), members...)
		s := sched.New(sched.Config{Redis: rdb})
		if failed := persist(t, s, mem.Client, keys.Retry); failed < 2 || failed > 6 {
			t.Errorf("%d tries failed, want 2 to 6", failed)
		}
		seen := map[string]bool{}
		for _, raw := range mem.Client.LRange(t.Context(), "queue:q", 0, -1).Val() {
			seen[unstamped(t, raw)] = true
		}
		if n := mem.Client.LLen(t.Context(), "queue:q").Val(); len(seen) != 400 || n != 400 {
			t.Errorf("%d jobs, %d different ones", n, len(seen))
		}
	})
}

// A member that the link does not carry at all goes where it belongs without being
// read, and stops none of the others.
func TestAMemberThatIsTooLargeStopsNobody(t *testing.T) {
	for name, c := range map[string]struct{ member, where string }{
		"job":    {sized(7, 900_000), "queue:q"},
		"no job": {strings.Repeat("x", 900_000), "dead"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := testkit.NewMemory(t)
				rdb := thinLink(mem, 100_000)
				defer func() { _ = rdb.Close() }()
				ctx := t.Context()
				now := time.Now()
				var log harness.Buffer
				add(t, mem.Client, keys.Schedule, now.Add(-time.Hour), job(1, "small"))
				add(t, mem.Client, keys.Schedule, now.Add(-time.Minute), c.member)
				add(t, mem.Client, keys.Schedule, now.Add(-time.Second), job(2, "small"), job(3, "small"))
				s := sched.New(sched.Config{Redis: rdb, Logger: zerolog.New(&log)})
				failed := persist(t, s, mem.Client, keys.Schedule)
				if took := time.Since(now); failed < 3 || took > 30*time.Second {
					t.Errorf("it took %v and %d tries that failed", took, failed)
				}
				var got []string
				if c.where == "dead" {
					got = mem.Client.ZRange(ctx, "dead", 0, -1).Val()
				} else {
					got = mem.Client.LRange(ctx, c.where, 0, -1).Val()
				}
				if len(got) != 1 || got[0] != c.member {
					t.Errorf("%s holds %d members", c.where, len(got))
				}
				harness.Equal(t, "small jobs moved", mem.Client.LLen(ctx, "queue:small").Val(), 3)
				lines := log.Lines(t)
				if len(lines) != 1 || lines[0]["level"] != "error" || lines[0]["key"] != c.where || lines[0]["bytes"] != float64(len(c.member)) {
					t.Errorf("log %v", lines)
				}
			})
		})
	}
}

// While Redis is away nothing is taken for too large, however long that lasts.
func TestAnOutageMovesNothingAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		faults := chaos.NewProxy(t, mem.Options())
		o := faults.Options()
		o.ReadTimeout, o.ContextTimeoutEnabled = 3*time.Second, true
		rdb := redis.NewClient(o)
		defer func() { _ = rdb.Close() }()
		var log harness.Buffer
		s := sched.New(sched.Config{Redis: rdb, Logger: zerolog.New(&log)})
		add(t, mem.Client, keys.Retry, time.Now().Add(-time.Minute), sized(1, 2<<20))
		for round := range 3 {
			if round%2 == 0 {
				faults.Kill()
			}
			for range 20 {
				if _, err := s.Promote(t.Context(), keys.Retry); err == nil && round%2 == 0 {
					t.Fatal("it promotes without Redis")
				}
				time.Sleep(time.Second)
			}
			faults.Restart()
		}
		drain(t, s, keys.Retry)
		got := mem.Client.LRange(t.Context(), "queue:q", 0, -1).Val()
		if len(got) != 1 || unstamped(t, got[0]) != sized(1, 2<<20) || len(log.Lines(t)) != 0 {
			t.Errorf("%d jobs, log %v", len(got), log.Lines(t))
		}
	})
}

// What has just become due does not wait behind a backlog of the same set: neither
// behind one that moves slowly nor behind one that cannot be moved.
func TestFreshMembersDoNotWaitBehindOldOnes(t *testing.T) {
	old := harness.Effort(1500, 8000)
	for name, queue := range map[string]string{"slow": "old", "stuck": "broken"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := testkit.NewMemory(t)
				ctx, cancel := context.WithCancel(t.Context())
				mem.Client.Set(ctx, "queue:broken", "x", 0)
				slow := func(next client.PushFunc) client.PushFunc {
					return func(ctx context.Context, p *troupe.Payload) error {
						time.Sleep(20 * time.Millisecond)
						return next(ctx, p)
					}
				}
				cfg := sched.Config{Redis: mem.Client, Identity: "a"}
				if name == "slow" {
					cfg.Client = client.New(mem.Client, client.WithMiddleware(slow))
				}
				score := redis.Z{Score: scores.Of(time.Now().Add(-time.Hour))} // all have the same
				var z []redis.Z
				for i := range old {
					score.Member = job(i, queue)
					z = append(z, score)
				}
				harness.OK(t, mem.Client.ZAdd(ctx, "schedule", z...).Err())
				done := make(chan struct{})
				go func() { defer close(done); poll(ctx, cfg) }()
				time.Sleep(time.Second)
				for i := range 5 {
					at := time.Now().Add(700 * time.Millisecond)
					add(t, mem.Client, keys.Schedule, at, job(old+i, "fresh")) // nobody rings
					harness.Must(mem.Client.BRPop(ctx, time.Minute, "queue:fresh").Result())(t)
					if late := time.Since(at); late > 250*time.Millisecond { // two batches of 50 ms and a member each
						t.Errorf("number %d was %v late", i, late)
					}
				}
				if n := mem.Client.ZCard(ctx, "schedule").Val(); n < int64(old/2) {
					t.Errorf("only %d old ones are left: they were no backlog", n)
				}
				cancel()
				<-done
			})
		})
	}
}
