package sched_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/redistest"
	"github.com/troupehq/troupe/sched"
	"github.com/troupehq/troupe/testkit"
)

// counted counts what is sent: one write a call.
type counted struct {
	net.Conn
	writes *atomic.Int64
}

func (c counted) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

func mini(m *testkit.Memory, writes *atomic.Int64) *redis.Client {
	options := m.Options()
	dial := options.Dialer
	options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return counted{conn, writes}, err
	}
	return redis.NewClient(options)
}

// Without CLIENT TRACKING our own pushes ring the bell, and a job pushed for
// later enters its queue at its time, to the microsecond of virtual time.
func TestTheBellWhereRedisCannotTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mr := testkit.NewMemory(t)
		rdb := mini(mr, new(atomic.Int64))
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { poll(ctx, rdb, "host:1:a") })
		time.Sleep(time.Second) // virtual: it watches and sleeps
		c := client.New(rdb)
		for _, d := range []time.Duration{2 * time.Second, 700 * time.Millisecond, time.Minute} {
			at := time.Now().Add(d)
			if _, err := c.PushClass(ctx, "X", nil, client.At(at)); err != nil {
				t.Fatal(err)
			}
			if _, err := rdb.BRPop(ctx, 2*time.Minute, "queue:default").Result(); err != nil {
				t.Fatal(err)
			}
			if late := time.Since(at); late < 0 || late > 5*time.Millisecond {
				t.Errorf("pushed for %v: %v late", d, late)
			}
		}
		cancel()
		wg.Wait()
		if keys := mr.Keys(); len(keys) != 1 {
			t.Errorf("left behind: %v", keys)
		}
		_ = rdb.Close()
	})
}

// Members that cannot be moved are tried less and less often, and never make
// the poller spin, also after somebody else has removed them.
func TestStuckMembersCostLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mr := testkit.NewMemory(t)
		rdb := mini(mr, new(atomic.Int64))
		ctx := context.Background()
		tries := 0
		mw := func(client.PushFunc) client.PushFunc {
			return func(context.Context, *troupe.Payload) error { tries++; return errors.New("no") }
		}
		s := sched.New(sched.Config{Redis: rdb, Batch: 3, Client: client.New(rdb, client.WithMiddleware(mw))})
		var members []string
		for i := range 10 {
			members = append(members, job(i, "q"))
		}
		add(t, rdb, sched.Retry, time.Now().Add(-time.Minute), members...)
		follow := func(d time.Duration) (calls int) {
			for end := time.Now().Add(d); time.Now().Before(end); {
				calls++
				p, err := s.Promote(ctx, sched.Retry)
				if err != nil {
					t.Fatal(err)
				}
				if p.More {
					continue
				}
				if p.Next.IsZero() {
					p.Next = end
				}
				if wait := time.Until(p.Next); wait <= 0 {
					t.Fatalf("to be called again %v ago", -wait)
				} else {
					time.Sleep(min(wait, time.Until(end)))
				}
			}
			return calls
		}
		if calls := follow(10 * time.Minute); calls > 400 || tries < 100 || tries > 200 {
			t.Errorf("%d calls and %d tries in 10 minutes", calls, tries)
		}
		rdb.ZRem(ctx, "retry", members[0], members[5])
		follow(10 * time.Minute)
		rdb.Del(ctx, "retry")
		follow(2 * time.Minute)
		if calls := follow(10 * time.Minute); calls != 1 {
			t.Errorf("%d calls for an empty set", calls)
		}
		_ = rdb.Close()
	})
}

func TestWatchEventsInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mr := testkit.NewMemory(t)
		var sent atomic.Int64
		rdb := mini(mr, &sent)
		a := startWatch(t, rdb, "a")
		synctest.Wait()
		b := startWatch(t, rdb, "b")
		synctest.Wait()
		c := startWatch(t, rdb, "c")
		synctest.Wait()
		elected := func(w *watch) (int, sched.Event) { n, e, _ := w.count(sched.Elected); return n, e }
		if n, e := elected(a); n != 1 || e.Standby || e.Tracking {
			t.Errorf("a: %d, %+v", n, e)
		}
		if n, e := elected(b); n != 1 || !e.Standby {
			t.Errorf("b: %d, %+v", n, e)
		}
		if n, _ := elected(c); n != 0 {
			t.Errorf("c was elected")
		}

		// What an idle fleet costs: one command each 5 s for a watcher, one each 3 s
		// or so for the others.
		before := sent.Load()
		time.Sleep(10 * time.Minute)
		if n := sent.Load() - before; n > 2*120+600/3*4/3 {
			t.Errorf("%d calls in 10 minutes", n)
		}
		if err := a.stop(); err != nil {
			t.Error(err)
		}
		time.Sleep(6 * time.Second)
		_, eb := elected(b)
		if n, ec := elected(c); n != 1 || ec.Standby == eb.Standby { // either may have been first
			t.Errorf("after the leader left: b %+v, c %d, %+v", eb, n, ec)
		}
		for _, w := range []*watch{b, c} {
			start := time.Now()
			if err := w.stop(); err != nil {
				t.Error(err)
			}
			if time.Since(start) > time.Second {
				t.Error("a stop took", time.Since(start))
			}
		}
		if keys := mr.Keys(); len(keys) != 0 {
			t.Errorf("left behind: %v", keys)
		}
		_ = rdb.Close()
	})
}

// The embedded Redis of the demo and of tests does what the real one does.
func TestScriptsAgreeOnBothServers(t *testing.T) {
	real, _ := redistest.New(t)
	mr := miniredis.RunT(t)
	fake := redis.NewClient(&redis.Options{Addr: mr.Addr(), MaxRetries: -1})
	defer func() { _ = fake.Close() }()
	ctx := context.Background()
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(rt, "n")
		batch := rapid.IntRange(1, 5).Draw(rt, "batch")
		base := time.Now().Add(-time.Hour)
		members := make([]string, n)
		for i := range members {
			members[i] = job(i, rapid.SampledFrom([]string{"a", "b", "odd"}).Draw(rt, "queue"))
			if rapid.IntRange(0, 4).Draw(rt, "bad") == 0 {
				members[i] = bad[i%len(bad)] + "!"
			}
		}
		var states [2]map[string]any
		for i, rdb := range []*redis.Client{real, fake} {
			rdb.FlushDB(ctx)
			rdb.Set(ctx, "queue:odd", "x", 0)
			add(t, rdb, sched.Schedule, base, members...)
			s := sched.New(sched.Config{Redis: rdb, Batch: batch, DeadMax: 3})
			sum := drain(t, s, sched.Schedule)
			sum.Next = time.Time{}
			o, err := s.Look(ctx)
			if err != nil {
				rt.Fatal(err)
			}
			states[i] = map[string]any{
				"promoted": sum, "outlook": o,
				"dead": rdb.ZRange(ctx, "dead", 0, -1).Val(), "left": rdb.ZRange(ctx, "schedule", 0, -1).Val(),
			}
			for _, q := range []string{"a", "b"} {
				var out []string
				for _, raw := range rdb.LRange(ctx, "queue:"+q, 0, -1).Val() {
					out = append(out, unstamped(t, raw))
				}
				states[i][q] = out
			}
		}
		if a, b := dump(states[0]), dump(states[1]); a != b {
			rt.Fatalf("real Redis: %s\nminiredis:  %s", a, b)
		}
	})
}
