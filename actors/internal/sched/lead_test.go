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

	"github.com/troupehq/troupe/actors/internal/sched"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/osproc"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// leading is a Lead under way; what it tells can be waited for.
type leading struct {
	t      testing.TB
	s      *sched.Scheduler
	rdb    redis.UniversalClient
	id     string
	cancel context.CancelFunc
	done   chan error

	mu    sync.Mutex
	sets  []string
	times []time.Time
}

func startLead(t testing.TB, rdb redis.UniversalClient, identity string) *leading {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &leading{t: t, s: sched.New(sched.Config{Redis: rdb, Identity: identity}), rdb: rdb, id: identity, cancel: cancel, done: make(chan error, 1)}
	go func() {
		w.done <- w.s.Lead(ctx, func(set string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.sets = append(w.sets, set)
			w.times = append(w.times, time.Now())
		})
	}()
	t.Cleanup(func() { cancel() })
	return w
}

func (w *leading) stop() error {
	w.t.Helper()
	w.cancel()
	select {
	case err := <-w.done:
		return err
	case <-time.After(10 * time.Second):
		w.t.Fatal("Lead did not return")
		return nil
	}
}

func (w *leading) leads() bool {
	return w.rdb.Get(context.Background(), "troupe:poller").Val() == w.id
}

// elected waits until it leads.
func (w *leading) elected() {
	w.t.Helper()
	harness.Await(w.t, w.id+" leads", w.leads)
}

// awaitDue waits until a set was told to have something due.
func (w *leading) awaitDue(set string) (at time.Time) {
	w.t.Helper()
	harness.Await(w.t, fmt.Sprintf("%s is due", set), func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		i := slices.Index(w.sets, set)
		if i >= 0 {
			at = w.times[i]
		}
		return i >= 0
	})
	return at
}

func TestTheLeaderTellsWhatIsDue(t *testing.T) {
	base, _ := redistest.New(t)
	for _, protocol := range []int{3, 2} {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			base.FlushDB(t.Context())
			rdb := redis.NewClient(&redis.Options{Addr: base.Options().Addr, DB: base.Options().DB, Protocol: protocol, MaxRetries: -1})
			defer func() { _ = rdb.Close() }()
			w := startLead(t, rdb, "host:1:a")
			w.elected()
			at := time.Now().Add(1500 * time.Millisecond)
			add(t, base, keys.Schedule, at, job(1, "q")) // by others than troupe
			if told := w.awaitDue(keys.Schedule); told.Before(at) {
				t.Errorf("told %v too early", at.Sub(told))
			}
			add(t, base, keys.Retry, time.Now().Add(-time.Hour), job(2, "q"))
			w.awaitDue(keys.Retry)
			start := time.Now()
			harness.Check(t, w.stop())
			stopped := time.Since(start)
			keys := base.Keys(t.Context(), "troupe:*").Val()
			if len(keys) != 0 && stopped < 150*time.Millisecond { // a stop tries for 200 ms
				t.Errorf("left behind: %v", keys)
			}
		})
	}
}

func TestAtMostTwentyLooksASecondBecauseOfPushes(t *testing.T) {
	rdb, _ := redistest.New(t)
	var asked spy
	watched := redis.NewClient(rdb.Options())
	defer func() { _ = watched.Close() }()
	watched.AddHook(&asked)
	w := startLead(t, watched, "host:1:a")
	w.elected()
	harness.Await(t, "it listens", func() bool { return rdb.PubSubNumSub(t.Context(), "troupe:wakeup").Val()["troupe:wakeup"] == 1 })
	c := client.New(rdb)
	start := time.Now()
	for time.Since(start) < 500*time.Millisecond {
		harness.Must(c.PushClass(t.Context(), "X", nil, client.In(time.Hour)))(t)
	}
	took := time.Since(start)
	at := time.Now().Add(time.Second)
	harness.Must(c.PushClass(t.Context(), "X", nil, client.At(at)))(t)
	if told := w.awaitDue(keys.Schedule); told.Before(at) {
		t.Errorf("told %v too early", at.Sub(told))
	}
	harness.Check(t, w.stop())
	// one each 50 ms while pushes came, then one each 500 ms
	all := took + time.Since(at.Add(-time.Second))
	n := 0
	for _, said := range asked.list() {
		if strings.HasPrefix(said, "evalsha") {
			n++
		}
	}
	if limit := int(took/(50*time.Millisecond)) + int(all/(500*time.Millisecond)) + 5; n > limit || n < 4 {
		t.Errorf("%d looks in %v, want 4 to %d", n, all, limit)
	}
}

// A subscription that Redis refuses as a connection comes back is made again, and what was told meanwhile is looked at: go-redis
// keeps such a connection, and hears nothing.
func TestASubscriptionThatIsRefusedIsMadeAgain(t *testing.T) {
	base, _ := redistest.New(t)
	ctx := t.Context()
	const user = "refused"
	set := func(rules ...any) {
		t.Helper()
		harness.OK(t, base.Do(ctx, append([]any{"ACL", "SETUSER", user}, rules...)...).Err())
	}
	set("on", "nopass", "allkeys", "allcommands", "allchannels")
	defer base.Do(context.Background(), "ACL", "DELUSER", user)
	listening := func() bool { return base.PubSubNumSub(ctx, keys.Wakeup).Val()[keys.Wakeup] == 1 }
	rdb := redis.NewClient(&redis.Options{Addr: base.Options().Addr, DB: base.Options().DB, Username: user, Password: "any", MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	w := startLead(t, rdb, "host:1:a")
	w.elected()
	harness.Await(t, "it listens", listening)
	w.awaitDue(sched.Limits)
	set("resetchannels") // ends the connection
	harness.Await(t, "it was refused", func() bool {
		entries, _ := base.ACLLog(ctx, 10).Result()
		return slices.ContainsFunc(entries, func(e *redis.ACLLogEntry) bool { return e.Username == user && e.Reason == "channel" })
	})
	w.mu.Lock()
	w.sets, w.times = nil, nil
	w.mu.Unlock()
	set("allchannels")
	harness.Await(t, "it listens again", listening)
	w.awaitDue(sched.Limits)
	w.awaitDue(sched.Periodic)
	harness.Check(t, w.stop())
}

func TestLeaderStandbyAndOthers(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	a := startLead(t, rdb, "host:1:a")
	a.elected()
	b := startLead(t, rdb, "host:2:b")
	harness.Await(t, "b stands by", func() bool { return rdb.Get(ctx, "troupe:poller:standby").Val() == "host:2:b" })
	c := startLead(t, rdb, "host:3:c")
	harness.Equal(t, "the leader is", rdb.Get(ctx, "troupe:poller").Val(), "host:1:a")
	// The leader leaves: the standby leads when its lock would have ended, the third
	// one stands by. On a machine that is late the third one may come first.
	harness.Check(t, a.stop())
	harness.Await(t, "one leads, the other one stands by", func() bool {
		two := []string{rdb.Get(ctx, "troupe:poller").Val(), rdb.Get(ctx, "troupe:poller:standby").Val()}
		slices.Sort(two)
		return slices.Equal(two, []string{"host:2:b", "host:3:c"})
	})
	for _, w := range []*leading{b, c} {
		harness.Check(t, w.stop())
	}
}

// A lock without an end is nobody's.
func TestALockWithoutAnEndIsTaken(t *testing.T) {
	rdb, _ := redistest.New(t)
	rdb.Set(t.Context(), "troupe:poller", "somebody", 0)
	w := startLead(t, rdb, "host:1:a")
	w.elected()
	if d := rdb.PTTL(t.Context(), "troupe:poller").Val(); d <= 0 {
		t.Errorf("it ends in %v", d)
	}
	harness.Check(t, w.stop())
}

// TestLeadProcess is no test but the process that others kill.
func TestLeadProcess(t *testing.T) {
	url := os.Getenv("TROUPE_TEST_LEAD")
	if url == "" {
		return
	}
	o := harness.Must(redis.ParseURL(url))(t)
	o.MaxRetries = -1
	s := sched.New(sched.Config{Redis: redis.NewClient(o), Identity: "victim:1:a"})
	fmt.Println(s.Lead(context.Background(), func(set string) { fmt.Println("due", set) }))
}

func TestAKilledLeaderIsReplaced(t *testing.T) {
	rdb, url := redistest.New(t)
	ctx := t.Context()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestLeadProcess$", "-test.v")
	cmd.Env = append(os.Environ(), "TROUPE_TEST_LEAD="+url)
	harness.OK(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	harness.Await(t, "the child leads", func() bool { return rdb.Get(ctx, "troupe:poller").Val() == "victim:1:a" })
	b := startLead(t, rdb, "host:2:b")
	harness.Await(t, "b stands by", func() bool { return rdb.Get(ctx, "troupe:poller:standby").Val() == "host:2:b" })
	harness.OK(t, cmd.Process.Signal(syscall.SIGKILL))
	_ = cmd.Wait()
	killed := time.Now()
	add(t, rdb, keys.Schedule, time.Now(), job(1, "q"))
	b.elected()
	t.Logf("told after %v", b.awaitDue(keys.Schedule).Sub(killed))
	harness.Check(t, b.stop())
}

// A stop takes 0.8 s of its second at most; a machine that stands still for the rest
// may do better the next time. (Virtual time is no way: go-redis waits on a mutex.)
func TestLeadStopsWithinASecondWhateverRedisDoes(t *testing.T) {
	for _, when := range []string{"leader", "standby"} {
		t.Run(when, func(t *testing.T) {
			longest := stopWhileRedisHangs(t, when == "leader")
			for try := 1; try < 4 && longest > time.Second; try++ {
				t.Logf("took %v", longest)
				longest = stopWhileRedisHangs(t, when == "leader")
			}
			if longest > time.Second {
				t.Errorf("took %v", longest)
			}
		})
	}
}

// stopWhileRedisHangs tells how long the longest stop took: of a leader, or of a
// leader and a standby.
func stopWhileRedisHangs(t *testing.T, alone bool) (longest time.Duration) {
	t.Helper()
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	defer func() { _ = rdb.Close() }()
	all := []*leading{startLead(t, rdb, "a")}
	all[0].elected()
	if !alone {
		all = append(all, startLead(t, rdb, "b"))
		harness.Await(t, "b stands by", func() bool { return rdb.Exists(t.Context(), "troupe:poller:standby").Val() == 1 })
	}
	harness.OK(t, server.Signal(osproc.Pause))
	for _, w := range all {
		start := time.Now()
		_ = w.stop() // an error, if a call was under way
		longest = max(longest, time.Since(start))
	}
	_ = server.Signal(osproc.Resume)
	return longest
}

func TestLeadReturnsWhenRedisGoes(t *testing.T) {
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	w := startLead(t, rdb, "host:1:a")
	w.elected()
	server.Kill()
	select {
	case err := <-w.done:
		if err == nil {
			t.Error("no error")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("still leading")
	}
	harness.OK(t, server.Restart())
	w = startLead(t, rdb, "host:1:a")
	w.elected()
	harness.Check(t, w.stop())
	s := sched.New(sched.Config{Redis: redis.NewRing(&redis.RingOptions{}), Identity: "x"})
	if err := s.Lead(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "want a *redis.Client") {
		t.Errorf("got %v", err)
	}
	if err := sched.New(sched.Config{Redis: rdb}).Lead(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "Identity") {
		t.Errorf("got %v", err)
	}
}

// poll is what the daemon's poller does with a Scheduler, in its simplest form,
// without its interval.
func poll(ctx context.Context, cfg sched.Config) {
	s := sched.New(cfg)
	var wg sync.WaitGroup
	defer wg.Wait()
	due := map[string]chan struct{}{keys.Retry: make(chan struct{}, 1), keys.Schedule: make(chan struct{}, 1)}
	for set, due := range due {
		wg.Go(func() {
			for {
				select {
				case <-due:
				case <-ctx.Done():
					return
				}
				for p := (sched.Promoted{More: true}); p.More && ctx.Err() == nil; {
					p, _ = s.Promote(ctx, set) // after an error the leader tells again
				}
			}
		})
	}
	for ctx.Err() == nil {
		_ = s.Lead(ctx, func(set string) {
			select {
			case due[set] <- struct{}{}:
			default:
			}
		})
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
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
		add(t, rdb, keys.Retry, time.Now().Add(-time.Hour), members...)
	}
	var wg sync.WaitGroup
	for _, id := range []string{"a", "b"} {
		wg.Go(func() { poll(ctx, sched.Config{Redis: rdb, Identity: id}) })
	}
	harness.Await(t, "somebody leads", func() bool { return rdb.Exists(ctx, "troupe:poller").Val() == 1 })
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
		harness.Must(c.PushClass(ctx, "Due", nil, client.Queue("due"), client.At(at)))(t)
		raw := harness.Must(rdb.BRPop(ctx, 30*time.Second, "queue:due").Result())(t)
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
		harness.Await(t, "the backlog shrinks", func() bool {
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
