package isolation

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/supervisor"
	"github.com/troupehq/troupe/testkit"
)

// span is one run of a job.
type span struct {
	asked    time.Time // when it came to the door
	from, to time.Time
	payload  string
	done     bool
}

type askedKey struct{}

// doorbell notes when a job comes to the Isolation's door.
func doorbell(next troupe.Handler) troupe.Handler {
	return troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
		return next.Perform(context.WithValue(ctx, askedKey{}, time.Now()), p)
	})
}

// work performs jobs as a test says, and keeps a diary.
type work struct {
	do func(ctx context.Context, call int) error

	mu    sync.Mutex
	spans []*span
	done  map[string]int
}

func newWork(do func(ctx context.Context, call int) error) *work {
	return &work{do: do, done: map[string]int{}}
}

func (w *work) Perform(ctx context.Context, p *troupe.Payload) error {
	s := &span{from: time.Now(), payload: string(p.Bytes())}
	s.asked, _ = ctx.Value(askedKey{}).(time.Time)
	w.mu.Lock()
	w.spans = append(w.spans, s)
	n := len(w.spans)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		s.to = time.Now()
		if s.done {
			w.done[p.JID()]++
		}
	}()
	err := w.do(ctx, n)
	s.done = err == nil
	return err
}

func (w *work) count() (runs, done int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.spans), len(w.done)
}

func config(rdb redis.UniversalClient, iso *Isolation, handlers map[string]troupe.Handler) actors.Config {
	r := new(troupe.Registry)
	for class, h := range handlers {
		troupe.HandleClass(r, class, h)
	}
	return actors.Config{
		Redis: rdb, Registry: r, PollInterval: time.Second, Middleware: []troupe.Middleware{doorbell},
		Capsules: []actors.Capsule{{
			Concurrency: 10, Queues: actors.Weighted{"reports": 1, "mails": 1},
			Strategy: iso.Strategy, Middleware: []troupe.Middleware{iso.Middleware},
		}},
	}
}

func push(k *testkit.Kit, n int, class string) {
	for i := range n {
		k.PushClass(class, []any{i}, client.Queue("reports"))
	}
}

func allDone(k *testkit.Kit, w *work, n int) {
	done := func() bool { _, done := w.count(); return done == n }
	for deadline := time.Now().Add(30 * time.Minute); !done() && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond)
	}
	k.Await("all jobs are done", done)
	k.Await("all settled", k.Settled)
}

func empty(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	for _, key := range []string{"schedule", "retry", "dead", "queue:reports", "queue:mails"} {
		if n := rdb.Exists(context.Background(), key).Val(); n != 0 {
			t.Errorf("%s is not empty", key)
		}
	}
}

// changes is what OnChange was told.
type changes struct {
	mu   sync.Mutex
	list []change
}

type change struct {
	at       time.Time
	isolated bool
}

func (c *changes) note(_ string, isolated bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, change{time.Now(), isolated})
}

// apart checks that nobody who came while the class was isolated was let in
// beside another one. Who came at the very instant of the crash may have come
// before it.
func (c *changes) apart(t *testing.T, spans []*span) (alone int) {
	t.Helper()
	for i := range c.list {
		if !c.list[i].isolated {
			continue
		}
		end := time.Now().Add(time.Hour)
		if i+1 < len(c.list) {
			end = c.list[i+1].at
		}
		for _, s := range spans {
			if !s.asked.After(c.list[i].at) || !s.from.Before(end) {
				continue
			}
			alone++
			for _, o := range spans {
				if o != s && o.from.Before(s.from) && o.to.After(s.from) {
					t.Errorf("a job of an isolated class began at %s, another one ran from %s to %s",
						s.from.Format("04:05.000"), o.from.Format("04:05.000"), o.to.Format("04:05.000"))
				}
			}
		}
	}
	return alone
}

func TestAfterACrashOneAtATimeUntilItBehaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs = 80
		m := testkit.NewMemory(t)
		seen := new(changes)
		iso := New(Config{Clean: 8, CrashFree: 20 * time.Second, OnChange: seen.note})
		w := newWork(func(_ context.Context, call int) error {
			time.Sleep(time.Duration(900+10*call) * time.Millisecond)
			if call == 15 {
				panic("nil report")
			}
			return nil
		})
		k := testkit.Start(t, config(m.Client, iso, map[string]troupe.Handler{"Report": w}), testkit.Strict())
		k.Allow(testkit.Crashes("launcher/default/processor-*").Times(1))
		pushes := testkit.Record(t, m.Client)
		push(k, jobs, "Report")
		k.Await("the isolation", func() bool { return slices.Equal(iso.Isolated(), []string{"Report"}) })
		k.Expect(testkit.Events[event.JobParked]().Of("Report").Because(ErrIsolated), nil)
		allDone(k, w, jobs)

		if len(seen.list) != 2 || !seen.list[0].isolated || seen.list[1].isolated {
			t.Fatalf("changes: %+v", seen.list)
		}
		if d := seen.list[1].at.Sub(seen.list[0].at); d < 20*time.Second || d > time.Minute {
			t.Errorf("isolated for %s", d)
		}
		if alone := seen.apart(t, w.spans); alone < 8 {
			t.Errorf("%d jobs ran during the isolation", alone)
		}
		most := 0
		for _, s := range w.spans {
			n := 0
			for _, o := range w.spans {
				if !o.from.After(s.from) && o.to.After(s.from) {
					n++
				}
			}
			most = max(most, n)
		}
		if most != 10 {
			t.Errorf("%d ran at once outside of the isolation, concurrency is 10", most)
		}
		pushed := map[string]string{}
		for _, p := range pushes.All() {
			pushed[p.JID()] = timeless(t, string(p.Bytes()))
		}
		retried := 0
		for _, s := range w.spans {
			p, _ := troupe.ParsePayload([]byte(s.payload))
			if _, again := p.Int("retry_count"); again {
				retried++ // the one that crashed
			} else if got := timeless(t, s.payload); got != pushed[p.JID()] {
				t.Errorf("ran\n%s\npushed\n%s", got, pushed[p.JID()])
			}
		}
		if s := k.Stats(); retried != 1 || s.Failed != 1 || s.Processed != jobs+1 {
			t.Errorf("%d runs after a failure, counts %+v", retried, s)
		}
		empty(t, m.Client)
	})
}

// timeless is a job without the time of its last push.
func timeless(t *testing.T, raw string) string {
	t.Helper()
	p, err := troupe.ParsePayload([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	p.Delete("enqueued_at")
	return string(p.Bytes())
}

// Fifty reports wait their turn; mails go out as ever, since no processor
// waits with them.
func TestOtherClassesAreNotSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		iso := New(Config{})
		reports := newWork(func(_ context.Context, call int) error {
			if call == 1 {
				panic("nil report")
			}
			time.Sleep(10 * time.Second)
			return nil
		})
		mails := newWork(func(context.Context, int) error { return nil })
		k := testkit.Start(t, config(testkit.NewMemory(t).Client, iso, map[string]troupe.Handler{"Report": reports, "Mail": mails}), testkit.Strict())
		k.Allow(testkit.Crashes("launcher/default/processor-*").Times(1))
		push(k, 1, "Report")
		k.Await("the isolation", func() bool { return len(iso.Isolated()) == 1 })
		push(k, 50, "Report")
		for i := range 50 {
			_, before := mails.count()
			k.PushClass("Mail", []any{i}, client.Queue("mails"))
			time.Sleep(300 * time.Millisecond)
			if _, done := mails.count(); done != before+1 {
				t.Fatalf("mail %d was not sent within 300 ms", i)
			}
		}
		if got := iso.Isolated(); !slices.Equal(got, []string{"Report"}) {
			t.Errorf("isolated: %q", got)
		}
		if s := k.Stats(); s.Busy > 1 {
			t.Errorf("%d processors are busy with reports", s.Busy)
		}
	})
}

// What it takes to get out: no crash for a while, and successes in a row.
func TestWhatBehavingIs(t *testing.T) {
	for name, tt := range map[string]struct {
		every time.Duration
		end   func(n int) error // of the n-th run after the crash
		after int               // the run that ends the isolation; 0: none of 70
	}{
		"successes, slowly":    {10 * time.Second, func(int) error { return nil }, 6},
		"successes, quickly":   {time.Second, func(int) error { return nil }, 60},
		"an error starts anew": {time.Minute, func(n int) error { return map[bool]error{true: errors.New("x")}[n == 4] }, 9},
		"only errors":          {time.Minute, func(int) error { return errors.New("x") }, 0},
		"a crash starts anew":  {10 * time.Second, func(n int) error { return map[bool]error{true: errPanic}[n == 4] }, 10},
		"parks prove nothing":  {time.Minute, func(int) error { return troupe.Park(time.Second, nil) }, 0},
		"parks harm nobody":    {time.Minute, func(n int) error { return map[bool]error{true: troupe.Park(0, nil)}[n == 4] }, 6},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				iso := New(Config{Clean: 5, CrashFree: time.Minute})
				crashed := supervisor.Failure{Job: &supervisor.JobCrash{Class: "Report"}}
				iso.decide(crashed)
				n := 0
				h := iso.Middleware(troupe.HandlerFunc(func(context.Context, *troupe.Payload) error {
					time.Sleep(tt.every)
					if n++; errors.Is(tt.end(n), errPanic) {
						panic(errPanic)
					}
					return tt.end(n)
				}))
				out := 0
				for i := 1; i <= 70 && out == 0; i++ {
					func() {
						defer func() {
							if recover() != nil {
								iso.decide(crashed)
							}
						}()
						_ = h.Perform(t.Context(), payload(t, "Report"))
					}()
					if len(iso.Isolated()) == 0 {
						out = i
					}
				}
				if out != tt.after {
					t.Errorf("out after %d runs, want %d", out, tt.after)
				}
			})
		})
	}
}

var errPanic = errors.New("to be a panic")

// Errors isolate nobody, nor do crashes of actors that run no job.
func TestWhatIsolatesNobody(t *testing.T) {
	iso := New(Config{})
	iso.decide(supervisor.Failure{Path: "launcher/default/fetcher", Reason: errPanic})
	h := iso.Middleware(troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return errors.New("x") }))
	for range 100 {
		_ = h.Perform(t.Context(), payload(t, "Report"))
	}
	if got := iso.Isolated(); len(got) > 0 {
		t.Errorf("isolated: %q", got)
	}
}

func payload(t *testing.T, class string) *troupe.Payload {
	t.Helper()
	p, err := troupe.ParsePayload(fmt.Appendf(nil, `{"class":%q,"args":[],"jid":%q}`, class, cryptorand.Text()))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Whatever crashes, fails or parks, and whenever the daemon is stopped and
// started again: in the end every job is done, and none is anywhere else.
func TestNoJobIsLost(t *testing.T) {
	for range 5 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 4))
				m := testkit.NewMemory(t)
				well := time.Now().Add(time.Duration(30+r.IntN(60)) * time.Second)
				var mu sync.Mutex
				draws := rand.New(rand.NewPCG(seed, 5))
				latency, panics, errs := time.Duration(r.IntN(2000))*time.Millisecond, 5+r.IntN(30), r.IntN(30)
				w := newWork(func(ctx context.Context, _ int) error {
					mu.Lock()
					n := draws.IntN(100)
					mu.Unlock()
					select {
					case <-time.After(latency):
					case <-ctx.Done():
						return context.Cause(ctx)
					}
					switch {
					case time.Now().After(well):
					case n < panics:
						panic("random")
					case n < panics+errs:
						return errors.New("random")
					}
					return nil
				})
				jobs := 0
				for range 2 {
					seen := new(changes)
					iso := New(Config{
						Clean: 1 + r.IntN(5), CrashFree: time.Duration(1+r.IntN(30)) * time.Second,
						Pause: time.Duration(1+r.IntN(10)) * time.Second, OnChange: seen.note,
					})
					cfg := config(m.Client, iso, map[string]troupe.Handler{"Report": w})
					cfg.Timeout = time.Second
					k := testkit.Start(t, cfg, testkit.Strict())
					k.Allow(testkit.Crashes("launcher/default/processor-*").AtLeast(0))
					before, _ := w.count()
					for range 10 + r.IntN(20) {
						k.PushClass("Report", []any{jobs}, client.Queue([]string{"reports", "mails"}[r.IntN(2)]))
						jobs++
						time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
					}
					if r.IntN(3) > 0 {
						allDone(k, w, jobs)
						empty(t, m.Client)
					}
					k.Stop()
					seen.apart(t, w.spans[before:])
				}
				iso := New(Config{})
				k := testkit.Start(t, config(m.Client, iso, map[string]troupe.Handler{"Report": w}), testkit.Strict())
				k.Allow(testkit.Crashes("launcher/default/processor-*").AtLeast(0))
				allDone(k, w, jobs)
				empty(t, m.Client)
			})
		})
	}
}

// The same on a real Redis, in real time.
func TestOnARealRedis(t *testing.T) {
	rdb := testkit.Redis(t)
	const jobs = 40
	seen := new(changes)
	iso := New(Config{Clean: 5, CrashFree: 200 * time.Millisecond, Pause: 50 * time.Millisecond, OnChange: seen.note})
	w := newWork(func(_ context.Context, call int) error {
		time.Sleep(5 * time.Millisecond) // some calls are in progress at once
		if call == 10 {
			panic("nil report")
		}
		return nil
	})
	k := testkit.Start(t, config(rdb, iso, map[string]troupe.Handler{"Report": w}), testkit.Strict())
	k.Allow(testkit.Crashes("launcher/default/processor-*").Times(1))
	push(k, jobs, "Report")
	k.Await("all but the one that crashed are done", func() bool { _, done := w.count(); return done >= jobs-1 })
	k.Await("all settled", k.Settled)
	n := rdb.ZCard(t.Context(), "retry").Val()
	// on a slow machine its retry may be due already
	if _, done := w.count(); n != 1 && done < jobs {
		t.Errorf("retry has %d jobs, want the one that crashed", n)
	}
	seen.apart(t, w.spans)
	if len(seen.list) == 0 {
		t.Error("nothing was isolated")
	}
}
