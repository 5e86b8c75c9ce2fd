package sched_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/ossignal"
	"github.com/troupehq/troupe/internal/redistest"
	"github.com/troupehq/troupe/sched"
)

// watch is a Watch under way; its events can be waited for.
type watch struct {
	t      testing.TB
	s      *sched.Scheduler
	cancel context.CancelFunc
	done   chan error

	mu     sync.Mutex
	events []sched.Event
	times  []time.Time
}

func startWatch(t testing.TB, rdb *redis.Client, identity string) *watch {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{t: t, s: sched.New(sched.Config{Redis: rdb}), cancel: cancel, done: make(chan error, 1)}
	go func() {
		w.done <- w.s.Watch(ctx, identity, func(e sched.Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, e)
			w.times = append(w.times, time.Now())
		})
	}()
	t.Cleanup(func() { cancel() })
	return w
}

func (w *watch) stop() error {
	w.t.Helper()
	w.cancel()
	select {
	case err := <-w.done:
		return err
	case <-time.After(10 * time.Second):
		w.t.Fatal("Watch did not return")
		return nil
	}
}

// count returns the number of events of a kind and the last of them.
func (w *watch) count(kind sched.EventKind) (n int, last sched.Event, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, e := range w.events {
		if e.Kind == kind {
			n, last, at = n+1, e, w.times[i]
		}
	}
	return n, last, at
}

// await waits for the n-th event of a kind.
func (w *watch) await(kind sched.EventKind, n int) (sched.Event, time.Time) {
	w.t.Helper()
	var last sched.Event
	var at time.Time
	eventually(w.t, fmt.Sprintf("event %s number %d", kind, n), func() bool {
		var got int
		got, last, at = w.count(kind)
		return got >= n
	})
	return last, at
}

// awaitNext waits until a Ring tells of an entry at a time, or just after it. After
// setApart one that a renewal has brought does not count.
func (w *watch) awaitNext(at time.Time, after time.Duration) (told time.Time) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("a ring for %v", at), func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		i := slices.IndexFunc(w.events, func(e sched.Event) bool {
			d := e.Next.Sub(at)
			return e.Kind == sched.Ring && e.Processes == 0 && d > -time.Millisecond && d < after+time.Millisecond
		})
		if i >= 0 {
			told = w.times[i]
		}
		return i >= 0
	})
	return told
}

// awaitRenewal waits until the seat is renewed; see setApart.
func (w *watch) awaitRenewal() {
	w.t.Helper()
	renewals := func() (n int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, e := range w.events {
			n += min(1, e.Processes)
		}
		return n
	}
	before := renewals()
	eventually(w.t, "a renewal", func() bool { return renewals() > before })
}

// setApart makes a process: the Rings of renewals count it, others do not.
func setApart(t testing.TB, rdb *redis.Client) {
	t.Helper()
	if err := rdb.SAdd(t.Context(), "processes", "x").Err(); err != nil {
		t.Fatal(err)
	}
}

func TestRedisTellsTheWatcherOfForeignAdds(t *testing.T) {
	for _, protocol := range []int{3, 2} {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			base, _ := redistest.New(t)
			rdb := redis.NewClient(&redis.Options{Addr: base.Options().Addr, DB: base.Options().DB, Protocol: protocol, MaxRetries: -1})
			defer func() { _ = rdb.Close() }()
			setApart(t, base)
			w := startWatch(t, rdb, "host:1:a")
			if e, _ := w.await(sched.Elected, 1); e.Standby || !e.Tracking {
				t.Fatalf("%+v", e)
			}
			if e, _ := w.await(sched.Ring, 1); !e.Next.IsZero() {
				t.Errorf("%+v", e)
			}
			at := time.Now().Add(time.Hour)
			for i, set := range []sched.Set{sched.Schedule, sched.Retry, sched.Schedule} {
				at = at.Add(-time.Minute)
				add(t, base, set, at, job(i, "q"))
				w.awaitNext(at, 0)
			}
			start := time.Now()
			if err := w.stop(); err != nil {
				t.Error(err)
			}
			stopped := time.Since(start)
			if n, _, _ := w.count(sched.Lost); n != 1 {
				t.Error("no event Lost")
			}
			keys := base.Keys(t.Context(), "troupe:*").Val()
			if len(keys) != 0 && stopped < 250*time.Millisecond { // a stop tries for 300 ms
				t.Errorf("left behind: %v", keys)
			}
		})
	}
}

func TestAtMostTwentyLooksASecond(t *testing.T) {
	rdb, _ := redistest.New(t)
	w := startWatch(t, rdb, "host:1:a")
	w.await(sched.Ring, 1)
	start, n := time.Now(), 0
	// Half a second, or longer on a machine that stands still; the first look and the
	// renewals alone would be two in four seconds.
	for i := 0; time.Since(start) < 500*time.Millisecond || n < 3 && time.Since(start) < 4*time.Second; i++ {
		add(t, rdb, sched.Retry, time.Now().Add(time.Hour), job(i, "q"))
		n, _, _ = w.count(sched.Ring)
	}
	if limit := int(time.Since(start)/(50*time.Millisecond)) + 2; n > limit || n < 3 {
		t.Errorf("%d looks in %v, want 3 to %d", n, time.Since(start), limit)
	}
	// the last add is not forgotten
	at := time.Now().Add(time.Minute)
	add(t, rdb, sched.Retry, at, job(-1, "q"))
	eventually(t, "the nearest entry is seen", func() bool {
		_, e, _ := w.count(sched.Ring)
		return e.Next.Sub(at).Abs() < time.Millisecond
	})
}

func TestSeats(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	const behind = 25 * time.Millisecond // the standby
	setApart(t, rdb)
	a := startWatch(t, rdb, "host:1:a")
	if e, _ := a.await(sched.Elected, 1); e.Standby {
		t.Error("the first one is a standby")
	}
	b := startWatch(t, rdb, "host:2:b")
	if e, _ := b.await(sched.Elected, 1); !e.Standby {
		t.Error("the second one is no standby")
	}
	c := startWatch(t, rdb, "host:3:c")
	at := time.Now().Add(time.Hour)
	add(t, rdb, sched.Schedule, at, job(1, "q"))
	a.awaitNext(at, 0)
	b.awaitNext(at.Add(behind), 0)
	if o, err := b.s.Look(ctx); err != nil || o.Schedule.Sub(at) < 24*time.Millisecond {
		t.Errorf("standby's look %+v, %v", o, err)
	}
	if n, _, _ := c.count(sched.Elected); n != 0 {
		t.Error("a third one watches")
	}
	if got := rdb.Get(ctx, "troupe:poller").Val(); got != "host:1:a" {
		t.Errorf("the leader is %s", got)
	}

	// The leader leaves: the standby goes on without a gap and moves up, the
	// third one finds the seat free.
	b.awaitRenewal() // the next one, which would end a gap, is most of 5 s away
	if err := a.stop(); err != nil {
		t.Error(err)
	}
	start := time.Now()
	at = at.Add(-time.Minute)
	add(t, rdb, sched.Retry, at, job(2, "q"))
	if d := b.awaitNext(at, behind).Sub(start); d > 3*time.Second {
		t.Errorf("the standby was told after %v", d)
	}
	if _, when := c.await(sched.Elected, 1); when.Sub(start) > 8*time.Second {
		t.Errorf("elected after %v", when.Sub(start))
	}
	eventually(t, "both seats are taken", func() bool {
		got := rdb.MGet(ctx, "troupe:poller", "troupe:poller:standby").Val()
		return fmt.Sprint(got) == "[host:2:b host:3:c]" || fmt.Sprint(got) == "[host:3:c host:2:b]"
	})
	for _, w := range []*watch{b, c} {
		if err := w.stop(); err != nil {
			t.Error(err)
		}
	}
}

// TestWatchProcess is no test but the process that others kill.
func TestWatchProcess(t *testing.T) {
	url := os.Getenv("TROUPE_TEST_WATCH")
	if url == "" {
		return
	}
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	o.MaxRetries = -1
	s := sched.New(sched.Config{Redis: redis.NewClient(o)})
	fmt.Println(s.Watch(context.Background(), "victim:1:a", func(e sched.Event) { fmt.Println("event", e.Kind) }))
}

func TestAKilledWatcherIsReplaced(t *testing.T) {
	rdb, url := redistest.New(t)
	ctx := t.Context()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestWatchProcess$", "-test.v")
	cmd.Env = append(os.Environ(), "TROUPE_TEST_WATCH="+url)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	eventually(t, "the child leads", func() bool { return rdb.Get(ctx, "troupe:poller").Val() == "victim:1:a" })
	b := startWatch(t, rdb, "host:2:b")
	if e, _ := b.await(sched.Elected, 1); !e.Standby {
		t.Fatal("not a standby")
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // then its connections are closed
	killed := time.Now()
	c := startWatch(t, rdb, "host:3:c") // finds the seat free, lease or not
	if e, at := c.await(sched.Elected, 1); e.Standby || at.Sub(killed) > 5*time.Second {
		t.Errorf("%+v after %v", e, at.Sub(killed))
	}
	at := time.Now().Add(50 * time.Minute)
	n, _, _ := b.count(sched.Ring)
	add(t, rdb, sched.Schedule, at, job(1, "q"))
	if e, _ := b.await(sched.Ring, n+1); e.Next.IsZero() {
		t.Error("the survivor was not told")
	}
	if n, _, _ := b.count(sched.Lost); n != 0 {
		t.Error("the survivor lost its seat")
	}
}

// A stop takes 0.6 s of its second at most; a machine that stands still for the rest
// may do better the next time. (Virtual time is no way: go-redis waits on a mutex.)
func TestWatchStopsWithinASecondWhateverRedisDoes(t *testing.T) {
	for _, when := range []string{"watching", "waiting for a seat"} {
		t.Run(when, func(t *testing.T) {
			longest := stopWhileRedisHangs(t, when == "watching")
			for try := 1; try < 4 && longest > time.Second; try++ {
				t.Logf("took %v", longest)
				longest = stopWhileRedisHangs(t, when == "watching")
			}
			if longest > time.Second {
				t.Errorf("took %v", longest)
			}
		})
	}
}

// stopWhileRedisHangs tells how long the longest stop took: of one that watches, or
// of two and one that waits for a seat.
func stopWhileRedisHangs(t *testing.T, watching bool) (longest time.Duration) {
	t.Helper()
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	var others []*watch
	if !watching {
		for _, id := range []string{"a", "b"} {
			w := startWatch(t, rdb, id)
			w.await(sched.Elected, 1)
			others = append(others, w)
		}
	}
	w := startWatch(t, rdb, "host:1:a")
	if watching {
		w.await(sched.Ring, 1)
	} else {
		eventually(t, "it has connected, beside two connections of each watcher and ours", func() bool {
			return strings.Count(rdb.ClientList(t.Context()).Val(), "\n") >= 6
		})
	}
	if err := server.Signal(ossignal.Pause); err != nil {
		t.Fatal(err)
	}
	for _, w := range append(others, w) {
		start := time.Now()
		if err := w.stop(); err != nil {
			t.Error(err)
		}
		longest = max(longest, time.Since(start))
	}
	_ = server.Signal(ossignal.Resume)
	return longest
}

func TestWatchReturnsWhenRedisGoes(t *testing.T) {
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	w := startWatch(t, rdb, "host:1:a")
	w.await(sched.Ring, 1)
	server.Kill()
	select {
	case err := <-w.done:
		if err == nil {
			t.Error("no error")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("still watching")
	}
	if n, _, _ := w.count(sched.Lost); n != 1 {
		t.Error("no event Lost")
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	w = startWatch(t, rdb, "host:1:a")
	w.await(sched.Ring, 1)
	if err := w.stop(); err != nil {
		t.Error(err)
	}
	s := sched.New(sched.Config{Redis: redis.NewRing(&redis.RingOptions{})})
	if err := s.Watch(t.Context(), "x", nil); err == nil || !strings.Contains(err.Error(), "want a *redis.Client") {
		t.Errorf("got %v", err)
	}
}

// poll is what the Poller does with a Scheduler, in its simplest form.
func poll(ctx context.Context, rdb *redis.Client, identity string) {
	s := sched.New(sched.Config{Redis: rdb})
	ring := make(chan time.Time, 100)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		_ = s.Watch(ctx, identity, func(e sched.Event) {
			if e.Kind == sched.Ring {
				ring <- e.Next
			}
		})
	})
	loop := func(set sched.Set, ring <-chan time.Time) {
		for ctx.Err() == nil {
			p, err := s.Promote(ctx, set)
			if err != nil || p.More {
				continue
			}
			wait := 5 * time.Second
			if !p.Next.IsZero() {
				wait = min(wait, time.Until(p.Next))
			}
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-ring:
			case <-ctx.Done():
			}
			timer.Stop()
		}
	}
	rings := [2]chan time.Time{make(chan time.Time, 1), make(chan time.Time, 1)}
	wg.Go(func() { loop(sched.Retry, rings[0]) })
	wg.Go(func() { loop(sched.Schedule, rings[1]) })
	for {
		select {
		case next := <-ring:
			for _, r := range rings {
				select {
				case r <- next:
				default:
				}
			}
		case <-ctx.Done():
			return
		}
	}
}

// Scheduled jobs come through while there are due retries without an end. Behind
// the backlog each of them would come when it is empty, however slow the machine.
func TestAScheduledJobIsOnTimeBesideABacklogOfRetries(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	const n = 50_000
	retries := 0
	backlog := func() {
		var members []string
		for range n {
			members = append(members, job(retries, "bulk"))
			retries++
		}
		add(t, rdb, sched.Retry, time.Now().Add(-time.Hour), members...)
	}
	var wg sync.WaitGroup
	for _, id := range []string{"a", "b"} {
		wg.Go(func() { poll(ctx, rdb, id) })
	}
	eventually(t, "somebody watches", func() bool { return rdb.Exists(ctx, "troupe:poller").Val() == 1 })
	c := client.New(rdb)
	beside, tries := 0, 0
	for ; beside < 5; tries++ {
		if tries == 40 {
			t.Fatalf("%d of %d scheduled jobs came while there were retries", beside, tries)
		}
		if rdb.ZCard(ctx, "retry").Val() < n/2 {
			backlog()
		}
		at := time.Now().Add(20 * time.Millisecond)
		if _, err := c.PushClass(ctx, "Due", nil, client.Queue("due"), client.At(at)); err != nil {
			t.Fatal(err)
		}
		raw, err := rdb.BRPop(ctx, 30*time.Second, "queue:due").Result()
		if err != nil {
			t.Fatal(err)
		}
		if rdb.ZCard(ctx, "retry").Val() > 0 {
			beside++
		}
		p := parse(t, raw[1])
		if enqueued, _ := p.Time("enqueued_at"); enqueued.Before(at.Add(-time.Millisecond)) {
			t.Errorf("%v too early", at.Sub(enqueued))
		}
	}
	t.Logf("%d of %d scheduled jobs came while there were retries", beside, tries)
	for left := int64(math.MaxInt64); left > 0; { // however long all of it takes
		eventually(t, "the backlog shrinks", func() bool {
			n, err := rdb.ZCard(ctx, "retry").Result()
			if err != nil || n >= left {
				return false
			}
			left = n
			return true
		})
	}
	cancel()
	wg.Wait()
	if got := rdb.LLen(context.Background(), "queue:bulk").Val(); got != int64(retries) {
		t.Errorf("%d of %d retries moved", got, retries)
	}
}
