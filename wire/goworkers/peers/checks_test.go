package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	workers1 "github.com/jrallison/go-workers"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/wire/goworkers"
)

// The tests are numbered as the checks of docs/go-workers.md.

func redisFor(t *testing.T) (*redis.Client, string) {
	t.Helper()
	rdb := testkit.NewServer(t).Client
	return rdb, rdb.Options().Addr
}

func TestCheck01TheOrderOfEachPeersPushesIsKept(t *testing.T) {
	t.Parallel()
	rdb, addr := redisFor(t)
	for i := range 3 {
		push1(t, addr, "", func() (string, error) { return workers1.Enqueue("one", "Add", []int{i}) })
		_, err := producer2(t, addr, "").Enqueue("two", "Add", []int{i})
		must(t, "enqueue", err)
	}
	start(t, peer{Kind: "troupe", Addr: addr, Queues: []string{"one", "two"}, Conc: 1})
	harness.AwaitFor(t, 2*harness.Patience, "all ran", func() bool { return len(ran(t, rdb)) == 6 })
	if got, want := args(ran(t, rdb)), []string{"[2]", "[1]", "[0]", "[0]", "[1]", "[2]"}; !slices.Equal(got, want) {
		t.Errorf("ran %q, want %q", got, want)
	}
}

func TestCheck02PeersRunOurPushesInOrder(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"v1", "v2"} {
		t.Run(kind, func(t *testing.T) {
			rdb, addr := redisFor(t)
			for i := range 3 {
				_, err := goworkers.NewClient(rdb, "ns").Push(t.Context(), goworkers.Job{Queue: "q", Class: "Add", Args: []int{i}})
				must(t, "push", err)
			}
			start(t, peer{Kind: kind, Addr: addr, Namespace: "ns", Process: "p", Queues: []string{"q"}, Conc: 1})
			harness.AwaitFor(t, 2*harness.Patience, "all ran", func() bool { return len(ran(t, rdb)) == 3 })
			if got, want := args(ran(t, rdb)), []string{"[0]", "[1]", "[2]"}; !slices.Equal(got, want) {
				t.Errorf("ran %q, want %q", got, want)
			}
		})
	}
}

func TestCheck03ArgumentsReachTheHandlerUnchanged(t *testing.T) {
	t.Parallel()
	rdb, addr := redisFor(t)
	push1(t, addr, "", func() (string, error) { return workers1.Enqueue("q", "Add", map[string]int{"k": 1}) })
	push1(t, addr, "", func() (string, error) { return workers1.Enqueue("q", "Add", json.Number("12345678901234567890")) })
	start(t, peer{Kind: "troupe", Addr: addr, Queues: []string{"q"}, Conc: 1})
	harness.AwaitFor(t, 2*harness.Patience, "all ran", func() bool { return len(ran(t, rdb)) == 2 })
	if got, want := args(ran(t, rdb)), []string{"[12345678901234567890]", `[{"k":1}]`}; !slices.Equal(got, want) {
		t.Errorf("ran %q, want %q", got, want)
	}
}

func TestCheck04AnImmediateJobWithAtRunsOnceAtOnce(t *testing.T) {
	t.Parallel()
	rdb, addr := redisFor(t)
	jid := push1(t, addr, "", func() (string, error) { return workers1.Enqueue("q", "Add", []int{1}) })
	if text := rdb.LIndex(t.Context(), "queue:q", 0).Val(); !strings.Contains(text, `"at":`) {
		t.Fatalf("no at in %s", text)
	}
	p := start(t, peer{Kind: "troupe", Addr: addr, Queues: []string{"q"}})
	harness.AwaitFor(t, 2*harness.Patience, "it ran", func() bool { return len(ran(t, rdb)) == 1 })
	p.stop()
	if n := rdb.ZCard(t.Context(), "schedule").Val(); n != 0 || times(t, rdb)[jid] != 1 {
		t.Errorf("%d scheduled, ran %v", n, times(t, rdb))
	}
}

func TestCheck05ScheduledJobsRunOnceBesideAPeersPoller(t *testing.T) {
	t.Parallel()
	rdb, addr := redisFor(t)
	two := producer2(t, addr, "ns")
	jid, err := two.EnqueueIn("q", "Add", 1, []int{0})
	must(t, "enqueue", err)
	start(t, peer{Kind: "troupe", Addr: addr, Namespace: "ns", Queues: []string{"q"}})
	harness.AwaitFor(t, 2*harness.Patience, "it ran", func() bool { return times(t, rdb)[jid] == 1 })
	start(t, peer{Kind: "v1", Addr: addr, Namespace: "ns", Process: "p", Queues: []string{"q"}})
	for i := range 200 {
		_, err := two.EnqueueIn("q", "Add", 0.5+float64(i%10)/10, []int{i})
		must(t, "enqueue", err)
	}
	harness.AwaitFor(t, 2*harness.Patience, "all ran", func() bool { return len(times(t, rdb)) == 201 })
	for jid, n := range times(t, rdb) {
		if n != 1 {
			t.Errorf("%s ran %d times", jid, n)
		}
	}
}

// A failure of ours is retried by v1 and back again.
func TestCheck06And07RetriesGoToAndFro(t *testing.T) {
	t.Parallel()
	rdb, addr := redisFor(t)
	ctx := t.Context()
	jids, err := goworkers.NewClient(rdb, "ns").Push(ctx, goworkers.Job{Queue: "q", Class: "Add", Args: []string{"fail"}, Retries: testRetries})
	must(t, "push", err)
	member := func(count int) string {
		var m string
		harness.AwaitFor(t, 2*harness.Patience, fmt.Sprintf("retry %d is stored", count), func() bool {
			for _, text := range rdb.ZRange(ctx, "ns:goretry", 0, -1).Val() {
				if strings.Contains(text, fmt.Sprintf(`"retry_count":%d`, count)) {
					m = text
				}
			}
			return m != ""
		})
		return m
	}
	due := func(m string) { rdb.ZAdd(ctx, "ns:goretry", redis.Z{Score: 1, Member: m}) }
	p := start(t, peer{Kind: "troupe", Addr: addr, Namespace: "ns", Queues: []string{"q"}})
	first := member(0)
	p.stop()
	var f struct {
		Queue        string `json:"queue"`
		FailedAt     string `json:"failed_at"`
		RetriedAt    string `json:"retried_at"`
		ErrorMessage string `json:"error_message"`
	}
	must(t, "member", json.Unmarshal([]byte(first), &f))
	if _, err := time.Parse("2006-01-02 15:04:05 MST", f.FailedAt); err != nil || f.ErrorMessage != "it fails" || f.Queue != "ns:q" {
		t.Errorf("%s", first)
	}
	due(first)
	v1 := start(t, peer{Kind: "v1", Addr: addr, Namespace: "ns", Process: "p", Queues: []string{"q"}})
	second := member(1)
	v1.stop()
	must(t, "member", json.Unmarshal([]byte(second), &f))
	if f.RetriedAt == "" || f.Queue != "ns:q" {
		t.Errorf("%s", second)
	}
	due(second)
	start(t, peer{Kind: "troupe", Addr: addr, Namespace: "ns", Queues: []string{"q"}})
	member(2)
	if all := ran(t, rdb); len(all) != 3 || all[0].jid != jids[0] || all[1].jid != jids[0] || all[2].jid != jids[0] ||
		all[0].kind+all[1].kind+all[2].kind != "troupev1troupe" {
		t.Errorf("ran %v", all)
	}
}

func TestCheck08LimitsAreThePeers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind string
		max  int // below 0: none
		want int
	}{{"troupe", 1, 3}, {"v2", 1, 3}, {"troupe", -1, 27}, {"v1", -1, 27}} {
		t.Run(fmt.Sprintf("%s, retry_max %d", c.kind, c.max), func(t *testing.T) {
			rdb, addr := redisFor(t)
			job := `{"queue":"q","class":"Add","args":["fail"],"jid":"j","retry":true}`
			if c.max >= 0 {
				job = fmt.Sprintf(`{"queue":"q","class":"Add","args":["fail"],"jid":"j","retry":true,"retry_max":%d}`, c.max)
			}
			rdb.LPush(t.Context(), "queue:q", job)
			start(t, peer{Kind: c.kind, Addr: addr, Process: "p", Queues: []string{"q"}, Conc: 1})
			hurry(t, rdb, "goretry", func() bool { return len(ran(t, rdb)) == c.want })
			time.Sleep(1500 * time.Millisecond) // another poll
			if n := len(ran(t, rdb)); n != c.want || rdb.ZCard(t.Context(), "goretry").Val() != 0 {
				t.Errorf("%d runs, want %d", n, c.want)
			}
		})
	}
}

// hurry makes retries due as they come, until done.
func hurry(t *testing.T, rdb *redis.Client, set string, done func() bool) {
	t.Helper()
	harness.AwaitFor(t, 2*harness.Patience, "the retries have run", func() bool {
		for _, z := range rdb.ZRangeWithScores(t.Context(), set, 0, -1).Val() {
			if z.Score > 1e9 {
				rdb.ZAddArgs(t.Context(), set, redis.ZAddArgs{XX: true, Members: []redis.Z{{Score: 1, Member: z.Member}}})
			}
		}
		return done()
	})
}

func TestCheck09AKilledPeersJobsAreAdopted(t *testing.T) {
	t.Parallel()
	rdb, addr := redisFor(t)
	ctx := t.Context()
	jids, err := goworkers.NewClient(rdb, "ns").Push(ctx,
		goworkers.Job{Queue: "q", Args: []string{"hold"}}, goworkers.Job{Queue: "q", Args: []string{"hold"}}, goworkers.Job{Queue: "q", Args: []string{"hold"}})
	must(t, "push", err)
	dead := start(t, peer{Kind: "v1", Addr: addr, Namespace: "ns", Process: "web:1", Queues: []string{"q"}, Conc: 3})
	harness.AwaitFor(t, 2*harness.Patience, "it has three", func() bool { return len(ran(t, rdb)) == 3 })
	dead.kill()
	rdb.Set(ctx, "release", 1, 0)
	for _, a := range []goworkers.Adoption{{Namespace: "ns"}, {Namespace: "ns", Processes: []string{"web:1"}, DryRun: true}, {Namespace: "ns", Processes: []string{"1"}}} {
		left, err := goworkers.Adopt(ctx, rdb, a)
		if err != nil || len(left) != 1 || left[0].Moved != 0 || left[0].Jobs != 3 || left[0].Process != "web:1" || left[0].Queue != "q" || left[0].State != goworkers.Unknown {
			t.Errorf("%+v: %+v, %v", a, left, err)
		}
	}
	left, err := goworkers.Adopt(ctx, rdb, goworkers.Adoption{Namespace: "ns", Processes: []string{"web:1"}})
	if err != nil || len(left) != 1 || left[0].Moved != 3 {
		t.Errorf("%+v, %v", left, err)
	}
	if n := rdb.Exists(ctx, "ns:queue:q:web:1:inprogress").Val(); n != 0 {
		t.Error("the list is not empty")
	}
	start(t, peer{Kind: "troupe", Addr: addr, Namespace: "ns", Queues: []string{"q"}, Conc: 1})
	harness.AwaitFor(t, 2*harness.Patience, "all ran again", func() bool { return len(ran(t, rdb)) == 6 })
	for i, r := range ran(t, rdb)[3:] {
		if r.jid != jids[i] {
			t.Errorf("job %d to run was %s, want %s: the oldest first", i, r.jid, jids[i])
		}
	}
}

func TestCheck10OursIsTakenOverWithinItsLease(t *testing.T) {
	t.Parallel()
	rdb, addr := redisFor(t)
	ctx := t.Context()
	jid := push1(t, addr, "ns", func() (string, error) { return workers1.Enqueue("q", "Add", []string{"hold"}) })
	p := peer{Kind: "troupe", Addr: addr, Namespace: "ns", Queues: []string{"q"}, Lease: time.Second}
	dead := start(t, p)
	harness.AwaitFor(t, 2*harness.Patience, "it runs", func() bool { return len(ran(t, rdb)) == 1 })
	dead.kill()
	rdb.Set(ctx, "release", 1, 0)
	next := start(t, p)
	harness.AwaitFor(t, 2*harness.Patience, "it ran again", func() bool { return times(t, rdb)[jid] == 2 })
	next.stop()
	if lists, _ := rdb.ScanType(ctx, 0, "ns:*", 1000, "list").Val(); len(lists) > 0 {
		t.Errorf("left: %q", lists)
	}
}

func TestCheck11Junk(t *testing.T) {
	t.Parallel()
	rdb, addr := redisFor(t)
	ctx := t.Context()
	rdb.LPush(ctx, "ns:queue:q", "junk", "[1]", `"text"`)
	rdb.ZAdd(ctx, "ns:schedule", redis.Z{Score: 1, Member: "more junk"}, redis.Z{Score: 1, Member: `{"class":"no queue"}`})
	rdb.ZAdd(ctx, "ns:goretry", redis.Z{Score: 1, Member: "{"})
	p := start(t, peer{Kind: "troupe", Addr: addr, Namespace: "ns", Queues: []string{"q"}})
	harness.AwaitFor(t, 2*harness.Patience, "junk is set apart", func() bool { return rdb.ZCard(ctx, "ns:dead").Val() == 6 })
	_, err := goworkers.NewClient(rdb, "ns").Push(ctx, goworkers.Job{Queue: "q"})
	must(t, "push", err)
	harness.AwaitFor(t, 2*harness.Patience, "the rest runs", func() bool { return len(ran(t, rdb)) == 1 })
	p.stop()
	if n := rdb.ZCard(ctx, "ns:schedule").Val() + rdb.ZCard(ctx, "ns:goretry").Val() + rdb.LLen(ctx, "ns:queue:q").Val(); n != 0 {
		t.Errorf("%d left", n)
	}
	all := strings.Join(rdb.ZRange(ctx, "ns:dead", 0, -1).Val(), "\n")
	for _, bytes := range []string{"junk", "no queue"} {
		if !strings.Contains(all, bytes) {
			t.Errorf("%q is not in dead: %s", bytes, all)
		}
	}
	for _, reason := range []string{"not a job"} {
		if !strings.Contains(p.out.String(), reason) && p.out.String() != "" {
			t.Errorf("the log does not say %q: %s", reason, p.out.String())
		}
	}
}

func TestCheck12TheHeartbeatsOfALivePeerGoOn(t *testing.T) {
	t.Parallel()
	for _, ns := range []string{"", "ns"} {
		t.Run("namespace "+ns, func(t *testing.T) {
			t.Parallel()
			rdb, addr := redisFor(t)
			ctx := t.Context()
			prefix := ""
			if ns != "" {
				prefix = ns + ":"
			}
			start(t, peer{Kind: "v2", Addr: addr, Namespace: ns, Process: "p", Queues: []string{"q"}, Heartbeat: true})
			ours := start(t, peer{Kind: "troupe", Addr: addr, Namespace: ns, Queues: []string{"q"}})
			harness.AwaitFor(t, 2*harness.Patience, "both are listed", func() bool { return rdb.SCard(ctx, "processes").Val()+rdb.SCard(ctx, "ns:processes").Val() == 2 })
			beat := func() (newest int64) {
				for _, id := range rdb.SMembers(ctx, prefix+"processes").Val() {
					if rdb.HExists(ctx, prefix+id, "active_manager").Val() {
						n, _ := rdb.HGet(ctx, prefix+id, "beat").Int64()
						newest = max(newest, n)
					}
				}
				return newest
			}
			time.Sleep(10 * time.Second) // two of its beats: the peer has real time
			if age := time.Now().Unix() - beat(); age > 4 {
				t.Errorf("the last beat of go-workers2 is %d s old", age)
			}
			ours.kill() // and goes stale
			time.Sleep(6 * time.Second)
			if age := time.Now().Unix() - beat(); age > 4 {
				t.Errorf("the last beat of go-workers2 is %d s old after ours was killed", age)
			}
		})
	}
}

func TestCheck13APeerAndWeAdoptOneList(t *testing.T) {
	t.Parallel()
	rdb, addr := redisFor(t)
	ctx := t.Context()
	var jobs []goworkers.Job
	for range 5 {
		jobs = append(jobs, goworkers.Job{Queue: "q", Args: []string{"hold"}})
	}
	jids, err := goworkers.NewClient(rdb, "ns").Push(ctx, jobs...)
	must(t, "push", err)
	dead := start(t, peer{Kind: "v2", Addr: addr, Namespace: "ns", Process: "dies", Queues: []string{"q"}, Conc: 5, Heartbeat: true})
	harness.AwaitFor(t, 2*harness.Patience, "it has five", func() bool { return len(ran(t, rdb)) == 5 })
	harness.AwaitFor(t, 2*harness.Patience, "it has beaten", func() bool {
		left, err := goworkers.Adopt(ctx, rdb, goworkers.Adoption{Namespace: "ns", TTL: 3 * time.Second})
		return err == nil && len(left) == 1 && left[0].State == goworkers.Alive
	})
	left, err := goworkers.Adopt(ctx, rdb, goworkers.Adoption{Namespace: "ns", Processes: []string{"dies"}, TTL: 3 * time.Second})
	if err != nil || left[0].Moved != 0 {
		t.Errorf("a live process was adopted: %+v, %v", left, err)
	}
	dead.kill()
	rdb.Set(ctx, "release", 1, 0)
	start(t, peer{Kind: "v2", Addr: addr, Namespace: "ns", Process: "lives", Queues: []string{"other"}, Heartbeat: true})
	start(t, peer{Kind: "troupe", Addr: addr, Namespace: "ns", Queues: []string{"q"}})
	harness.AwaitFor(t, 2*harness.Patience, "all ran again", func() bool {
		_, err := goworkers.Adopt(context.Background(), rdb, goworkers.Adoption{Namespace: "ns", TTL: 3 * time.Second})
		return err == nil && len(ran(t, rdb)) >= 10
	})
	for _, jid := range jids {
		if n := times(t, rdb)[jid]; n < 2 || n > 3 {
			t.Errorf("%s ran %d times", jid, n)
		}
	}
}

// stats2 and retries2 are Stats and Retries of go-workers2 without its Msg.
type stats2 struct {
	Name       string `json:"manager_name"`
	Processed  int64  `json:"processed"`
	Failed     int64  `json:"failed"`
	Jobs       map[string][]struct{ StartedAt int64 }
	Enqueued   map[string]int64 `json:"enqueued"`
	RetryCount int64            `json:"retry_count"`
}

type retries2 struct {
	TotalRetryCount int64 `json:"total_retry_count"`
	RetryJobs       []struct {
		Jid string `json:"jid"`
	} `json:"retry_jobs"`
}

func TestCheck14StatsDecodeIntoThePeersTypes(t *testing.T) {
	t.Parallel()
	rdb, addr := redisFor(t)
	ctx := t.Context()
	c := goworkers.NewClient(rdb, "ns")
	_, err := c.Push(ctx, goworkers.Job{Queue: "a", Args: []string{"fail"}, Retries: testRetries}, goworkers.Job{Queue: "b"})
	must(t, "push", err)
	p := start(t, peer{Kind: "troupe", Addr: addr, Namespace: "ns", Queues: []string{"a", "b"}})
	harness.AwaitFor(t, 2*harness.Patience, "both ran", func() bool { return len(ran(t, rdb)) == 2 && rdb.ZCard(ctx, "ns:goretry").Val() == 1 })
	p.stop()
	_, err = c.Push(ctx, goworkers.Job{Queue: "a"}, goworkers.Job{Queue: "a"}, goworkers.Job{Queue: "b"})
	must(t, "push", err)
	s := goworkers.NewStats(rdb, "ns", "main", "a", "b")

	rec := httptest.NewRecorder()
	s.ServeStats2(rec, httptest.NewRequest("GET", "/stats", nil))
	var two []stats2 // the library's own type does not decode itself
	must(t, rec.Body.String(), json.Unmarshal(rec.Body.Bytes(), &two))
	if len(two) != 1 || two[0].Name != "main" || two[0].Processed != 1 || two[0].Failed != 1 || two[0].RetryCount != 1 ||
		two[0].Enqueued["ns:a"] != 2 || two[0].Enqueued["ns:b"] != 1 || !strings.Contains(rec.Body.String(), `"ns:a": null`) {
		t.Errorf("%+v", two)
	}
	rec = httptest.NewRecorder()
	s.ServeRetries(rec, httptest.NewRequest("GET", "/retries", nil))
	var retries []retries2
	must(t, rec.Body.String(), json.Unmarshal(rec.Body.Bytes(), &retries))
	if len(retries) != 1 || retries[0].TotalRetryCount != 1 || len(retries[0].RetryJobs) != 1 || retries[0].RetryJobs[0].Jid == "" {
		t.Errorf("%+v", retries)
	}
	rec = httptest.NewRecorder()
	s.ServeStats1(rec, httptest.NewRequest("GET", "/stats", nil))
	var ours map[string]any
	must(t, rec.Body.String(), json.Unmarshal(rec.Body.Bytes(), &ours))
	one.Lock()
	defer one.Unlock()
	workers1.Configure(map[string]string{"server": addr, "process": "p", "namespace": "ns"})
	rec = httptest.NewRecorder()
	workers1.Stats(rec, httptest.NewRequest("GET", "/stats", nil))
	var theirs map[string]any
	must(t, rec.Body.String(), json.Unmarshal(rec.Body.Bytes(), &theirs))
	for field, value := range theirs {
		if number, ok := value.(float64); ok && ours[field] != number {
			t.Errorf("%s: %v, theirs %v", field, ours[field], value)
		}
		if _, ok := ours[field]; !ok {
			t.Errorf("%s is missing", field)
		}
	}
	if enqueued := ours["enqueued"].(map[string]any); enqueued["ns:a"] != "2" || enqueued["ns:b"] != "1" {
		t.Errorf("enqueued %v", enqueued)
	}
}

func TestCheck15FailuresAreCountedApart(t *testing.T) {
	t.Parallel()
	rdb, addr := redisFor(t)
	ctx := t.Context()
	var jobs []goworkers.Job
	for i := range 5 {
		jobs = append(jobs, goworkers.Job{Queue: "q", Args: map[bool]string{true: "fail", false: "fine"}[i < 2]})
	}
	_, err := goworkers.NewClient(rdb, "ns").Push(ctx, jobs...)
	must(t, "push", err)
	p := start(t, peer{Kind: "troupe", Addr: addr, Namespace: "ns", Queues: []string{"q"}})
	harness.AwaitFor(t, 2*harness.Patience, "all ran", func() bool { return len(ran(t, rdb)) == 5 })
	p.stop()
	day := time.Now().UTC().Format(time.DateOnly)
	for key, want := range map[string]string{"stat:processed": "3", "stat:failed": "2", "stat:processed:" + day: "3", "stat:failed:" + day: "2"} {
		if got := rdb.Get(ctx, "ns:"+key).Val(); got != want {
			t.Errorf("%s is %q, want %s", key, got, want)
		}
	}
}

// A stop puts what still runs back to the end that is taken next, and go-workers runs it.
func TestAStopPutsBackWhatRuns(t *testing.T) {
	t.Parallel()
	rdb, addr := redisFor(t)
	ctx := t.Context()
	var was []string
	for _, args := range []string{"hold", "later"} {
		push1(t, addr, "ns", func() (string, error) { return workers1.Enqueue("q", "Add", []string{args}) })
		was = append(was, rdb.LIndex(ctx, "ns:queue:q", -1).Val())
		if args == "hold" {
			ours := start(t, peer{Kind: "troupe", Addr: addr, Namespace: "ns", Queues: []string{"q"}, Conc: 1})
			harness.AwaitFor(t, 2*harness.Patience, "it runs", func() bool { return len(ran(t, rdb)) == 1 })
			defer ours.stop()
			time.AfterFunc(200*time.Millisecond, ours.stop)
		}
	}
	harness.AwaitFor(t, 2*harness.Patience, "it is back", func() bool { return rdb.LLen(ctx, "ns:queue:q").Val() == 2 })
	if got := rdb.LIndex(ctx, "ns:queue:q", -1).Val(); got != was[0] {
		t.Errorf("next is %s, want %s", got, was[0])
	}
	rdb.Set(ctx, "release", 1, 0)
	start(t, peer{Kind: "v1", Addr: addr, Namespace: "ns", Process: "p", Queues: []string{"q"}, Conc: 1})
	harness.AwaitFor(t, 2*harness.Patience, "go-workers runs both", func() bool { return len(ran(t, rdb)) == 3 })
	if all := ran(t, rdb); all[1].args != `["hold"]` || all[1].kind != "v1" {
		t.Errorf("ran %v", all)
	}
}
