package breaker

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/testkit"
)

var errDown = errors.New("connection refused")

// bank is the dependency.
type bank struct {
	answer func(ctx context.Context, call int) error // nil: yes

	mu    sync.Mutex
	calls int
	seen  map[string][]string // by jid: the job, each time it was run
	done  map[string]int
}

func newBank(answer func(ctx context.Context, call int) error) *bank {
	return &bank{answer: answer, seen: map[string][]string{}, done: map[string]int{}}
}

// downFor is a bank that refuses every call for a while, and takes its time for it.
func downFor(d, latency time.Duration) *bank {
	up := time.Now().Add(d)
	return newBank(func(context.Context, int) error {
		time.Sleep(latency)
		if time.Now().Before(up) {
			return errDown
		}
		return nil
	})
}

func (b *bank) Perform(ctx context.Context, p *troupe.Payload) error {
	b.mu.Lock()
	b.calls++
	n := b.calls
	b.seen[p.JID()] = append(b.seen[p.JID()], string(p.Bytes()))
	b.mu.Unlock()
	if err := b.answer(ctx, n); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done[p.JID()]++
	return nil
}

// count returns how many calls reached the bank, and how many jobs are done.
func (b *bank) count() (calls, done int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls, len(b.done)
}

func registry(handlers map[string]troupe.Handler) *troupe.Registry {
	r := new(troupe.Registry)
	for class, h := range handlers {
		troupe.HandleClass(r, class, h)
	}
	return r
}

// config is a daemon with one capsule of ten processors behind br.
func config(rdb redis.UniversalClient, br *Breaker, r *troupe.Registry) actors.Config {
	return actors.Config{
		Redis: rdb, Registry: r, PollInterval: time.Second,
		Capsules: []actors.Capsule{{
			Concurrency: 10, Queues: actors.Weighted{"charges": 1, "mails": 1},
			Strategy: br.Strategy, Middleware: []troupe.Middleware{br.Middleware},
		}},
	}
}

func push(k *testkit.Kit, n int, class string) {
	for i := range n {
		k.PushClass(class, []any{i}, client.Queue("charges"))
	}
}

// await is Kit.Await for what takes many minutes of the bubble's time.
func await(k *testkit.Kit, what string, cond func() bool) {
	for deadline := time.Now().Add(30 * time.Minute); !cond() && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond)
	}
	k.Await(what, cond)
}

// allDone waits until n jobs are done and everything is settled.
func allDone(k *testkit.Kit, b *bank, n int) {
	await(k, "all jobs are done", func() bool { _, done := b.count(); return done == n })
	k.Await("all settled", k.Settled)
}

func size(t *testing.T, rdb redis.UniversalClient, key string) (n int64) {
	t.Helper()
	var err error
	if key == "retry" || key == "schedule" || key == "dead" {
		n, err = rdb.ZCard(context.Background(), key).Result()
	} else {
		n, err = rdb.LLen(context.Background(), key).Result()
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Two hundred jobs, and the bank is down for a minute. Without a breaker all two
// hundred would be tried and fail, most of them more than once.
func TestAMinuteOfOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs, delay = 200, 10 * time.Second
		m := testkit.NewMemory(t)
		b := downFor(time.Minute, 100*time.Millisecond)
		br := New(Config{Delay: delay})
		k := testkit.Start(t, config(m.Client, br, registry(map[string]troupe.Handler{"Charge": b})), testkit.Strict())
		pushes := testkit.Record(t, m.Client)
		began := time.Now()
		push(k, jobs, "Charge")

		k.Await("the circuit opens and the queue is parked", func() bool {
			return br.State("Charge") == circuitbreaker.OpenState && size(t, m.Client, "schedule") > jobs-25
		})
		opened := time.Now()
		pushed := map[string]*troupe.Payload{}
		raw := map[string]bool{}
		for _, p := range pushes.All() {
			pushed[p.JID()] = p.Payload
			raw[string(p.Bytes())] = true
		}
		var due []float64
		for _, z := range m.Client.ZRangeWithScores(t.Context(), "schedule", 0, -1).Val() {
			if !raw[z.Member.(string)] {
				t.Errorf("parked with other bytes than were pushed: %s", z.Member)
			}
			due = append(due, z.Score-float64(opened.UnixNano())/1e9)
		}
		slices.Sort(due)
		if first, last := due[0], due[len(due)-1]; first < 9 || last > 20 || last-first < 5 || len(slices.Compact(due)) < jobs/2 {
			t.Errorf("the parked are due %.1f to %.1f s after the opening, want them spread over 10 to 20", first, last)
		}

		time.Sleep(time.Until(began.Add(time.Minute)))
		// up to ten were under way when the tenth failed; then one probe every ten seconds
		calls, done := b.count()
		t.Logf("%d calls reached the bank during the outage", calls)
		if calls < 10+5 || calls > 10+9+6 || done != 0 {
			t.Errorf("%d calls reached the bank while it was down, %d were done", calls, done)
		}
		allDone(k, b, jobs)
		failed := 0
		for jid, runs := range b.seen {
			if b.done[jid] != 1 {
				t.Errorf("job %s was done %d times", jid, b.done[jid])
			}
			for i, run := range runs { // the first one sees no trace of parks, the next ones those of failures
				p, _ := troupe.ParsePayload([]byte(run))
				if count, ok := p.Int("retry_count"); ok != (i > 0) || ok && count != int64(i-1) {
					t.Errorf("run %d of job %s has retry_count %d", i+1, jid, count)
				}
				p.SetTime("enqueued_at", time.Time{}, troupe.TimestampsFloat)
				pushed[jid].SetTime("enqueued_at", time.Time{}, troupe.TimestampsFloat)
				if i == 0 && string(p.Bytes()) != string(pushed[jid].Bytes()) {
					t.Errorf("ran\n%s\npushed\n%s", p.Bytes(), pushed[jid].Bytes())
				}
			}
			failed += len(runs) - 1
		}
		if s := k.Stats(); s.Processed != uint64(jobs+failed) || s.Failed != uint64(failed) {
			t.Errorf("%d failed and %d are done, the daemon counts %d and %d", failed, jobs, s.Failed, s.Processed)
		}
		for _, key := range []string{"schedule", "retry", "dead", "queue:charges"} {
			if n := size(t, m.Client, key); n != 0 {
				t.Errorf("%s still has %d jobs", key, n)
			}
		}
	})
}

// One job at a time finds out whether the bank is back, however long it takes.
func TestOneProbeAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var states []string
		probes := map[int]int{} // calls by half-open period
		br := New(Config{Delay: 5 * time.Second, OnChange: func(key string, from, to circuitbreaker.State) {
			mu.Lock()
			defer mu.Unlock()
			states = append(states, fmt.Sprintf("%s: %s to %s", key, from, to))
		}})
		up := time.Now().Add(time.Minute)
		b := newBank(func(context.Context, int) error {
			mu.Lock()
			if br.State("Charge") == circuitbreaker.HalfOpenState {
				probes[len(states)]++
			}
			mu.Unlock()
			time.Sleep(7 * time.Second) // longer than the parked wait: they come while the probe is out
			if time.Now().Before(up) {
				return errDown
			}
			return nil
		})
		k := testkit.Start(t, config(testkit.NewMemory(t).Client, br, registry(map[string]troupe.Handler{"Charge": b})), testkit.Strict())
		push(k, 40, "Charge")
		allDone(k, b, 40)
		mu.Lock()
		defer mu.Unlock()
		want := []string{"Charge: closed to open"}
		for range len(probes) - 1 {
			want = append(want, "Charge: open to half-open", "Charge: half-open to open")
		}
		want = append(want, "Charge: open to half-open", "Charge: half-open to closed")
		if !slices.Equal(states, want) || len(probes) < 3 {
			t.Errorf("went %q,\nwant %q", states, want)
		}
		for _, n := range probes {
			if n != 1 {
				t.Errorf("%d probes at once", n)
			}
		}
	})
}

// A class that only panics opens its circuit as well, and a probe that panics
// opens it again. Its processors were restarted at once every time; the circuit
// keeps them from crashing all day.
func TestCrashesOpenTheCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := time.Now().Add(time.Minute)
		b := newBank(func(_ context.Context, call int) error {
			switch {
			case time.Now().After(up):
				return nil
			case call%3 == 0: // together with errors
				return errDown
			}
			panic("nil account")
		})
		br := New(Config{Delay: 10 * time.Second})
		k := testkit.Start(t, config(testkit.NewMemory(t).Client, br, registry(map[string]troupe.Handler{"Charge": b})), testkit.Strict())
		k.Allow(testkit.Crashes("launcher/default/processor-*").AtLeast(1))
		push(k, 50, "Charge")
		time.Sleep(time.Until(up))
		if calls, _ := b.count(); calls < 10+4 || calls > 10+10+6 {
			t.Errorf("%d calls during the outage", calls)
		}
		allDone(k, b, 50)
	})
}

// While a hundred charges wait for the bank, mails go out as ever.
func TestOtherClassesKeepTheirPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := downFor(time.Minute, time.Second)
		mails := newBank(func(context.Context, int) error { return nil })
		br := New(Config{Delay: 10 * time.Second})
		k := testkit.Start(t, config(testkit.NewMemory(t).Client, br, registry(map[string]troupe.Handler{"Charge": b, "Mail": mails})), testkit.Strict())
		push(k, 100, "Charge")
		k.Await("the circuit is open", func() bool { return br.State("Charge") == circuitbreaker.OpenState })
		for i := range 100 {
			_, before := mails.count()
			k.PushClass("Mail", []any{i}, client.Queue("mails"))
			time.Sleep(300 * time.Millisecond)
			if _, done := mails.count(); done != before+1 {
				t.Fatalf("mail %d was not sent within 300 ms", i)
			}
		}
		if br.State("Mail") != circuitbreaker.ClosedState {
			t.Error("the circuit of mails is not closed")
		}
	})
}

// Classes of one dependency share a circuit.
func TestClassesWithOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := downFor(time.Hour, time.Millisecond)
		br := New(Config{Key: func(class string) string {
			if class == "Mail" {
				return class
			}
			return "bank"
		}})
		k := testkit.Start(t, config(testkit.NewMemory(t).Client, br, registry(map[string]troupe.Handler{"Charge": b, "Refund": b, "Mail": b})), testkit.Strict())
		push(k, 5, "Charge")
		push(k, 5, "Refund")
		k.Await("the circuit is open", func() bool { return br.State("Refund") == circuitbreaker.OpenState })
		if c, m := br.State("Charge"), br.State("Mail"); c != circuitbreaker.OpenState || m != circuitbreaker.ClosedState {
			t.Errorf("Charge is %s, Mail is %s", c, m)
		}
		before, _ := b.count()
		k.Expect(testkit.Events[event.JobParked]().Of("Charge").Because(ErrOpen).Times(1), func() { push(k, 1, "Charge") })
		if after, _ := b.count(); after != before {
			t.Error("a charge reached the bank")
		}
	})
}

// Verdicts on jobs open nothing, and errors below the ratio neither.
func TestWhatOpensNothing(t *testing.T) {
	for name, answer := range map[string]func(int) error{
		"discards":    func(int) error { return troupe.Discard(errDown) },
		"kills":       func(int) error { return troupe.Kill(errDown) },
		"parks":       func(int) error { return troupe.Park(time.Hour, errDown) },
		"one in four": func(n int) error { return map[bool]error{true: errDown}[n%4 == 0] },
		"nine":        func(n int) error { return map[bool]error{true: errDown, false: troupe.Park(time.Hour, nil)}[n <= 9] },
		// in a bubble: each case is run in one
		"one every 10 s":  func(int) error { time.Sleep(10 * time.Second); return errDown },
		"a quarter panic": func(n int) error { return map[bool]error{true: errCrashed}[n%4 == 0] },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				br := New(Config{})
				calls := 0
				h := br.Middleware(troupe.HandlerFunc(func(context.Context, *troupe.Payload) error {
					calls++
					return answer(calls)
				}))
				for range 100 {
					_ = h.Perform(t.Context(), payload(t, "Charge"))
				}
				if s := br.State("Charge"); calls != 100 || s != circuitbreaker.ClosedState {
					t.Errorf("%d of 100 calls, then %s", calls, s)
				}
			})
		})
	}
}

// A job that began before the outage ends in the middle of it: its success is
// not the probe's, its failure neither.
func TestOldNewsDoesNotCount(t *testing.T) {
	for _, old := range []error{nil, errDown} {
		synctest.Test(t, func(t *testing.T) {
			br := New(Config{Minimum: 2, Delay: 10 * time.Second})
			run := func(took time.Duration, end error) error {
				return br.Middleware(troupe.HandlerFunc(func(context.Context, *troupe.Payload) error {
					time.Sleep(took)
					return end
				})).Perform(t.Context(), payload(t, "Charge"))
			}
			go run(13*time.Second, old)
			synctest.Wait()
			_, _ = run(0, errDown), run(0, errDown)
			if s := br.State("Charge"); s != circuitbreaker.OpenState {
				t.Fatalf("%s after two failures", s)
			}
			time.Sleep(11 * time.Second)
			go run(10*time.Second, nil) // the probe, from second 11 to 21
			time.Sleep(4 * time.Second)
			if s := br.State("Charge"); s != circuitbreaker.HalfOpenState {
				t.Errorf("%s after an old job ended with %v, the probe is still out", s, old)
			}
			if err := run(0, nil); !errors.Is(err, ErrOpen) {
				t.Errorf("a second probe ran: %v", err)
			}
			time.Sleep(10 * time.Second)
			if s := br.State("Charge"); s != circuitbreaker.ClosedState {
				t.Errorf("%s after the probe", s)
			}
		})
	}
}

// A probe that crashes, or that something further in parks, must not leave the
// circuit half-open for ever.
func TestAProbeThatShowsNothing(t *testing.T) {
	for name, end := range map[string]func() error{
		"crash": func() error { panic("boom") },
		"park":  func() error { return troupe.Park(time.Minute, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				br := New(Config{Minimum: 1, Delay: 10 * time.Second})
				run := func(f func() error) {
					defer func() { _ = recover() }()
					_ = br.Middleware(troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return f() })).
						Perform(t.Context(), payload(t, "Charge"))
				}
				run(func() error { return errDown })
				time.Sleep(10 * time.Second)
				run(end)
				if s := br.State("Charge"); s != circuitbreaker.OpenState {
					t.Errorf("%s after it", s)
				}
				time.Sleep(10 * time.Second)
				run(func() error { return nil })
				if s := br.State("Charge"); s != circuitbreaker.ClosedState {
					t.Errorf("%s after the next probe", s)
				}
			})
		})
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
