package sched_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/sched"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
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

func mini(m *testkit.Server, writes *atomic.Int64) *redis.Client {
	options := m.Options()
	dial := options.Dialer
	options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return counted{conn, writes}, err
	}
	return redis.NewClient(options)
}

// Our own pushes ring, and a job pushed for later enters its queue at its time, to
// the microsecond of virtual time, however soon that is.
func TestOurPushesAreOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mr := testkit.NewMemory(t)
		rdb := mini(mr, new(atomic.Int64))
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { poll(ctx, sched.Config{Redis: rdb, Identity: "host:1:a"}) })
		time.Sleep(time.Second) // virtual: it leads and sleeps
		c := client.New(rdb)
		for _, d := range []time.Duration{2 * time.Second, 700 * time.Millisecond, time.Minute, 60 * time.Millisecond} {
			at := time.Now().Add(d)
			harness.Must(c.PushClass(ctx, "X", nil, client.At(at)))(t)
			harness.Must(rdb.BRPop(ctx, 2*time.Minute, "queue:default").Result())(t)
			if late := time.Since(at); late < 0 || late > 2*time.Microsecond {
				t.Errorf("pushed for %v: %v late", d, late)
			}
		}
		cancel()
		wg.Wait()
		if keys := rdb.Keys(t.Context(), "*").Val(); len(keys) != 1 {
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
		add(t, rdb, keys.Retry, time.Now().Add(-time.Minute), members...)
		follow := func(d time.Duration) (calls int) {
			for end := time.Now().Add(d); time.Now().Before(end); {
				calls++
				p := harness.Must(s.Promote(ctx, keys.Retry))(t)
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
		harness.Equal(t, "calls for an empty set", follow(10*time.Minute), 1)
		_ = rdb.Close()
	})
}

func TestLeadInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mr := testkit.NewMemory(t)
		var sent atomic.Int64
		rdb := mini(mr, &sent)
		leader := func() string { return mr.Client.Get(context.Background(), "troupe:poller").Val() }
		var all []*leading
		for _, id := range []string{"a", "b", "c"} {
			all = append(all, startLead(t, rdb, id))
			synctest.Wait()
		}
		a, b, c := all[0], all[1], all[2]
		harness.Equal(t, "leads", leader(), "a")

		// What an idle fleet costs: two commands a second for the leader and a PING each
		// 10 s, one each second or so for the standby, one each 3 s for the others.
		before := sent.Load()
		time.Sleep(10 * time.Minute)
		if n := sent.Load() - before; n > 600*2+60+600+600/3*4/3 {
			t.Errorf("%d calls in 10 minutes", n)
		}
		harness.Check(t, a.stop())
		time.Sleep(1501 * time.Millisecond)
		harness.Equal(t, "leads after the leader has left", leader(), "b")
		time.Sleep(5 * time.Second)
		harness.Equal(t, "stands by", mr.Client.Get(t.Context(), "troupe:poller:standby").Val(), "c")
		for _, w := range []*leading{b, c} {
			start := time.Now()
			harness.Check(t, w.stop())
			if time.Since(start) > time.Second {
				t.Error("a stop took", time.Since(start))
			}
		}
		if keys := rdb.Keys(t.Context(), "*").Val(); len(keys) != 0 {
			t.Errorf("left behind: %v", keys)
		}
		_ = rdb.Close()
	})
}

// sorted sorts what is in no certain order: a batch is smaller, and the next one of
// the other end, when the machine stands still.
func sorted(list []string) []string {
	slices.Sort(list)
	return list
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
			add(t, rdb, keys.Schedule, base, members...)
			s := sched.New(sched.Config{Redis: rdb, Batch: batch})
			sum := drain(t, s, keys.Schedule)
			sum.Next = time.Time{}
			states[i] = map[string]any{
				"promoted": sum,
				"dead":     sorted(rdb.ZRange(ctx, "dead", 0, -1).Val()), "left": rdb.ZRange(ctx, "schedule", 0, -1).Val(),
			}
			for _, q := range []string{"a", "b"} {
				var out []string
				for _, raw := range rdb.LRange(ctx, "queue:"+q, 0, -1).Val() {
					out = append(out, unstamped(t, raw))
				}
				states[i][q] = sorted(out)
			}
		}
		if a, b := dump(states[0]), dump(states[1]); a != b {
			rt.Fatalf("real Redis: %s\nminiredis:  %s", a, b)
		}
	})
}
