package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/wire/laravel"
)

const task = `App\Jobs\Task`

// client pushes and looks at failed jobs.
func (a *app) client() *laravel.Client { return laravel.NewClient(a.rdb, a.prefix) }

func (a *app) pushed(jobs ...laravel.Job) []string {
	a.t.Helper()
	uuids := harness.Must(a.client().Push(context.Background(), jobs...))(a.t)
	return uuids
}

func (a *app) sizes(queue string) string {
	ctx := context.Background()
	q := a.prefix + "queues:" + queue
	return fmt.Sprintf("%d ready, %d delayed, %d reserved", a.rdb.LLen(ctx, q).Val(), a.rdb.ZCard(ctx, q+":delayed").Val(), a.rdb.ZCard(ctx, q+":reserved").Val())
}

var prefixes = []string{"laravel_database_", "", "laravel-database-"}

// Checks 1 and 15.
func TestCheck01And15LaravelPushesAndTroupeRuns(t *testing.T) {
	for _, prefix := range prefixes {
		t.Run("prefix "+prefix, func(t *testing.T) {
			t.Parallel()
			a := newApp(t, prefix)
			for i, data := range []any{map[string]any{"a": 1}, []int{1, 2}, "text"} {
				a.push("default", fmt.Sprint("task@", []string{"fire", "fire", "fire"}[i]), data)
			}
			d := a.troupe(daemon{Concurrency: 1})
			runs := a.awaitRuns(3)
			if got, want := shown(runs), `troupe task {"a":1} 1; troupe task [1,2] 1; troupe task "text" 1`; got != want {
				t.Errorf("runs %s, expected %s", got, want)
			}
			a.awaitEmpty()
			d.Stop(harness.Patience)
		})
	}
}

// Check 15.
func TestCheck15TheOrderOfQueuesIsStrict(t *testing.T) {
	t.Parallel()
	a := newApp(t, "laravel_database_")
	for i := range 20 {
		a.push("low", "task", map[string]any{"low": i})
		a.push("high", "task", map[string]any{"high": i})
	}
	a.troupe(daemon{Concurrency: 1, Queues: []string{"high", "low"}})
	for i, r := range a.awaitRuns(40) {
		if high := strings.Contains(string(r.Data), "high"); high != (i < 20) {
			t.Fatalf("run %d is %s", i, r.Data)
		}
	}
}

func TestCheck02ADelayedJobRunsOnce(t *testing.T) {
	t.Parallel()
	a := newApp(t, "laravel_database_")
	a.work()
	a.troupe(daemon{})
	at := time.Now()
	for i := range 4 {
		a.do(map[string]any{"do": "later", "delay": 3, "job": task, "data": map[string]any{"i": i}})
	}
	a.awaitRuns(4)
	a.awaitEmpty()
	time.Sleep(300 * time.Millisecond) // for a second run of one
	runs := a.runs()
	if len(runs) != 4 {
		t.Errorf("runs %s, expected 4", shown(runs))
	}
	for _, r := range runs {
		if d := r.At - float64(at.UnixMicro())/1e6; d < 2 {
			t.Errorf("it ran after %.1f s, expected 2 at least", d)
		}
	}
}

// Checks 3 and 15.
func TestCheck03And15TroupePushesAndLaravelRuns(t *testing.T) {
	for _, prefix := range prefixes {
		t.Run("prefix "+prefix, func(t *testing.T) {
			t.Parallel()
			a := newApp(t, prefix, "BLOCK_FOR=30")
			w := a.work("--sleep=3")
			a.await("it waits for a push", func() bool {
				return strings.Contains(a.rdb.Info(context.Background(), "clients").Val(), "blocked_clients:1\r")
			})
			at := time.Now()
			const data = `{"n":12345678901234,"nested":{"attempts":7},"list":[1,"ä/é"],"t":"12345678901234567890"}`
			a.pushed(laravel.Job{Queue: "default", Name: task, Data: json.RawMessage(data)})
			w.says(t, "processed")
			if d := time.Since(at); d > 20*time.Second { // without a token it waits for 30 s
				t.Errorf("it was run after %s, expected it at once", d)
			}
			var got, want any
			runs := a.awaitRuns(1)
			if json.Unmarshal(runs[0].Data, &got) != nil || json.Unmarshal([]byte(data), &want) != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("data %s, expected %s", runs[0].Data, data)
			}
			a.awaitEmpty()
		})
	}
}

func TestCheck03ALaterPushIsRunByLaravel(t *testing.T) {
	t.Parallel()
	a := newApp(t, "laravel_database_")
	a.work()
	at := time.Now()
	a.pushed(laravel.Job{Queue: "default", Name: task, Data: map[string]int{"a": 1}, At: at.Add(2 * time.Second)})
	if d := a.awaitRuns(1)[0].At - float64(at.UnixMicro())/1e6; d < 1 || d > 5 {
		t.Errorf("it ran after %.1f s, expected 2", d)
	}
	a.awaitEmpty()
}

func TestCheck04FailingHereDoesNotDamageAJob(t *testing.T) {
	t.Parallel()
	a := newApp(t, "laravel_database_")
	const payload = `{"uuid":"u-1","displayName":"x","job":"App\\Jobs\\Task","maxTries":3,"data":{"fail":2,"big":1712345678901234567,"l":[],"o":{},"n":{"attempts":9},"text":"\",\"attempts\":5}"},"id":"i","attempts":0}`
	harness.OK(t, a.client().PushRaw(context.Background(), laravel.Raw{Queue: "default", Payload: []byte(payload)}))
	d := a.troupe(daemon{})
	a.awaitRuns(2)
	a.await("a release", func() bool { return a.sizes("default") != "0 ready, 0 delayed, 1 reserved" })
	d.Kill()
	ctx := context.Background()
	members := append(a.rdb.ZRange(ctx, a.prefix+"queues:default:delayed", 0, -1).Val(), a.rdb.ZRange(ctx, a.prefix+"queues:default:reserved", 0, -1).Val()...)
	members = append(members, a.rdb.LRange(ctx, a.prefix+"queues:default", 0, -1).Val()...)
	if want := strings.Replace(payload, `"attempts":0}`, `"attempts":2}`, 1); len(members) != 1 || members[0] != want && a.runs()[len(a.runs())-1].Attempt != 3 {
		t.Fatalf("the job is %q, expected %q", members, want)
	}
	a.work()
	last := a.awaitRuns(3)[2]
	if last.Side != "php" || last.Attempt != 3 || !strings.Contains(string(last.Data), "1712345678901234567") {
		t.Errorf("PHP saw %s attempt %d, side %s", last.Data, last.Attempt, last.Side)
	}
}

func TestCheck05AKilledProcessesJobIsRunByTheOther(t *testing.T) {
	t.Parallel()
	a := newApp(t, "laravel_database_", "RETRY_AFTER=3")
	sleeps := func(uuid string) laravel.Job {
		return laravel.Job{Queue: "default", Name: task, UUID: uuid, MaxTries: 3, Data: map[string]any{"sleep": 2, "of": uuid}}
	}
	a.pushed(sleeps("ours"))
	d := a.troupe(daemon{Lease: 3 * time.Second})
	a.awaitRuns(1)
	d.Kill()
	w := a.work()
	runs := a.awaitRuns(2)
	if got := runs[1]; got.Side != "php" || got.Attempt != 2 {
		t.Errorf("runs %s", shown(runs))
	}
	w.says(t, "processed")
	a.awaitEmpty()
	a.pushed(sleeps("theirs"))
	a.awaitRuns(3) // PHP's, which is recorded at its start
	_ = w.cmd.Process.Kill()
	a.troupe(daemon{Lease: 3 * time.Second})
	runs = a.awaitRuns(4)
	if got := runs[3]; got.Side != "troupe" || got.Attempt != 2 {
		t.Errorf("runs %s", shown(runs))
	}
	a.awaitEmpty()
}

func TestCheck06ALongJobKeepsItsLease(t *testing.T) {
	t.Parallel()
	a := newApp(t, "laravel_database_", "RETRY_AFTER=2")
	a.push("default", task, map[string]any{"sleep": 5})
	d := a.troupe(daemon{Lease: 2 * time.Second})
	a.awaitRuns(1)
	a.work()
	a.awaitEmpty()
	if runs := a.runs(); len(runs) != 1 || runs[0].Side != "troupe" {
		t.Errorf("runs %s", shown(runs))
	}
	d.Stop(harness.Patience)
}

func TestCheck07ALateEndChangesNothing(t *testing.T) {
	t.Parallel()
	a := newApp(t, "laravel_database_", "RETRY_AFTER=2")
	a.pushed(laravel.Job{Queue: "default", Name: task, MaxTries: 5, Data: map[string]any{"fail": 1, "sleep": 0.5}})
	d := a.troupe(daemon{Lease: 2 * time.Second})
	a.awaitRuns(1)
	d.Pause()
	w := a.work()
	w.says(t, "processed")
	w.cmd.Process.Kill()
	d.Resume()
	time.Sleep(2 * time.Second) // in which it fails
	harness.Equal(t, "after the late failure", a.sizes("default"), "0 ready, 0 delayed, 0 reserved")
	if runs := a.runs(); len(runs) != 2 {
		t.Errorf("runs %s", shown(runs))
	}
	d.Stop(harness.Patience)
}

func TestCheck08BackoffAndAttemptsAddUp(t *testing.T) {
	t.Parallel()
	a := newApp(t, "laravel_database_")
	job := laravel.Job{Queue: "default", Name: task, MaxTries: 3, Backoff: []time.Duration{time.Second, 2 * time.Second}, Data: map[string]any{"fail": 9}}
	a.pushed(job)
	d := a.troupe(daemon{})
	runs := a.awaitRuns(3)
	for i, want := range []float64{1, 2} {
		if gap := runs[i+1].At - runs[i].At; gap < want-1.5 || gap > want+1.5 {
			t.Errorf("gap %d is %.1f s, expected %.0f", i, gap, want)
		}
	}
	a.awaitEmpty()
	failed, err := a.client().Failed(context.Background(), 0, 0)
	if err != nil || len(failed) != 1 || failed[0].Exception != "asked to fail" {
		t.Fatalf("failed %+v, %v", failed, err)
	}
	d.Stop(harness.Patience)

	a.pushed(job)
	d = a.troupe(daemon{})
	a.awaitRuns(4)
	a.await("a release", func() bool { return a.sizes("default") == "0 ready, 1 delayed, 0 reserved" })
	d.Kill()
	a.work("--tries=9").says(t, "failed")
	if runs = a.runs(); len(runs) < 6 || len(runs) > 7 || runs[5].Attempt != 3 { // with the call of failed
		t.Errorf("runs %s", shown(runs))
	}
	if rows := a.failed(); len(rows) != 1 {
		t.Errorf("rows %v", rows)
	}
}

func TestCheck09RetryUntil(t *testing.T) {
	t.Parallel()
	a := newApp(t, "laravel_database_")
	raw := func(uuid string, until time.Time) laravel.Raw {
		return laravel.Raw{Queue: "default", Payload: fmt.Appendf(nil, `{"uuid":%q,"job":"task","maxTries":1,"retryUntil":%d,"data":{"fail":1,"of":%q},"id":"x","attempts":0}`, uuid, until.Unix(), uuid)}
	}
	harness.OK(t, a.client().PushRaw(context.Background(), raw("past", time.Now().Add(-time.Minute)), raw("future", time.Now().Add(time.Minute))))
	a.troupe(daemon{})
	runs := a.awaitRuns(2)
	a.awaitEmpty()
	if got := shown(runs); strings.Contains(got, "past") || len(a.runs()) != 2 {
		t.Errorf("runs %s", got)
	}
	failed, err := a.client().Failed(context.Background(), 0, 0)
	if err != nil || len(failed) != 1 || failed[0].UUID != "past" || !strings.Contains(failed[0].Exception, "too late") {
		t.Errorf("failed %+v, %v", failed, err)
	}
}

func TestCheck10WhatIsNoJobIsKept(t *testing.T) {
	t.Parallel()
	a := newApp(t, "laravel_database_")
	bad := []string{`junk`, `{"job":"task","data":1}`, "\xff\x00\x01", `[1]`, `{"job":"task","attempts":"x"}`, `{"job":7,"attempts":0}`, ``}
	ctx := context.Background()
	for _, text := range bad {
		a.rdb.RPush(ctx, a.prefix+"queues:default", text)
	}
	a.push("default", "task", map[string]any{"good": 1})
	a.troupe(daemon{Concurrency: 2})
	a.awaitRuns(1)
	a.awaitEmpty()
	var kept []string
	a.await("the failed jobs", func() bool {
		failed := harness.Must(a.client().Failed(ctx, 0, 0))(t)
		kept = nil
		for _, f := range failed {
			kept = append(kept, string(f.Payload))
			if f.Exception == "" || f.Queue != "default" {
				t.Errorf("failed %+v", f)
			}
		}
		return len(kept) >= len(bad)
	})
	slices.Sort(bad)
	slices.Sort(kept)
	harness.EqualList(t, "kept", kept, bad)
}

// Check 11; TestObjectsOfPHP has the properties.
func TestCheck11ObjectsAndEncryptedObjectsRun(t *testing.T) {
	t.Parallel()
	a := newApp(t, "laravel_database_")
	a.do(map[string]any{"do": "resize", "data": map[string]any{}})
	a.do(map[string]any{"do": "secret", "data": map[string]any{}})
	a.troupe(daemon{Concurrency: 1, AppKey: "base64:a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="})
	if got, want := shown(a.awaitRuns(2)), `troupe App\Jobs\Resize "App\\Jobs\\Resize" 1; troupe App\Jobs\Secret "App\\Jobs\\Secret" 1`; got != want {
		t.Errorf("runs %s, expected %s", got, want)
	}
	a.awaitEmpty()
}

func TestCheck12AChainedJobIsKept(t *testing.T) {
	t.Parallel()
	a := newApp(t, "laravel_database_")
	a.do(map[string]any{"do": "chain"})
	a.push("default", "task", map[string]any{"good": 1})
	d := a.troupe(daemon{Concurrency: 1})
	runs := a.awaitRuns(1)
	a.awaitEmpty()
	d.Stop(harness.Patience)
	failed, err := a.client().Failed(context.Background(), 0, 0)
	if err != nil || len(runs) != 1 || len(failed) != 1 || !strings.Contains(failed[0].Exception, "chain") {
		t.Fatalf("runs %s, failed %+v, %v", shown(runs), failed, err)
	}
	// It is PHP's: there it runs, and its next one.
	harness.OK(t, a.client().Retry(context.Background(), failed[0].UUID))
	a.work("--stop-when-empty").exits(t)
	harness.Equal(t, "runs", shown(a.runs()[1:]), "php step [] 1; php step [] 1")
}

func TestCheck13ARelayedFailureIsPHPs(t *testing.T) {
	t.Parallel()
	a := newApp(t, "laravel_database_")
	a.push("go", task, map[string]any{"fail": 1})
	a.push("go", "unknown to PHP", map[string]any{"fail": 9})
	a.troupe(daemon{Queues: []string{"go"}, Relay: "failing"})
	w := a.work("--queue=failing", "--tries=5")
	w.says(t, "failed")
	w.says(t, "failed")
	var rows []map[string]any
	a.await("the rows", func() bool { rows = a.failed(); return len(rows) == 2 })
	for _, r := range a.runs() {
		if r.Side == "php" && r.Job != "failed" {
			t.Errorf("PHP has run it: %s", shown(a.runs()))
		}
	}
	for _, row := range rows {
		if strings.Contains(row["payload"].(string), "Task") {
			a.do(map[string]any{"do": "retry", "uuid": row["id"]})
		}
	}
	var again run
	a.await("the retry", func() bool {
		i := slices.IndexFunc(a.runs(), func(r run) bool { return r.Job == "task" })
		if i >= 0 {
			again = a.runs()[i]
		}
		return i >= 0
	})
	if again.Side != "php" || again.Attempt != 1 {
		t.Errorf("runs %s", shown(a.runs()))
	}
}

func TestCheck14PauseAndRestart(t *testing.T) {
	t.Parallel()
	a := newApp(t, "laravel_database_")
	d := a.troupe(daemon{Cache: true})
	a.push("default", "task", map[string]any{"first": 1})
	a.awaitRuns(1)
	cache := redis.NewClient(&redis.Options{Addr: a.addr, DB: 1})
	defer func() { _ = cache.Close() }()
	ctx := context.Background()
	a.do(map[string]any{"do": "pause"})
	keys := cache.Keys(ctx, "*").Val()
	if want := a.prefix + "laravel_cache:illuminate:queue:paused:redis:default"; !slices.Contains(keys, want) {
		t.Fatalf("the cache has %q, expected %q", keys, want)
	}
	time.Sleep(5 * time.Second) // it looks once a second
	a.push("default", "task", map[string]any{"second": 1})
	time.Sleep(1500 * time.Millisecond) // what must not happen cannot be waited for: it looks once a second
	if runs := a.runs(); len(runs) != 1 {
		t.Errorf("runs while the queue is paused: %s", shown(runs))
	}
	for _, k := range keys {
		cache.Del(ctx, k)
	}
	a.awaitRuns(2)
	a.push("default", "task", map[string]any{"sleep": 1})
	a.awaitRuns(3)
	a.do(map[string]any{"do": "restart"})
	harness.Equal(t, "exit code after queue:restart", d.Exit(harness.Patience), 0)
	a.awaitEmpty()
}

// What runs at the deadline of a stop goes back as it was, without an attempt.
func TestAStopPutsBackWhatRuns(t *testing.T) {
	t.Parallel()
	a := newApp(t, "laravel_database_")
	a.push("default", task, map[string]any{"sleep": 3})
	ctx := context.Background()
	before := a.rdb.LRange(ctx, a.prefix+"queues:default", 0, -1).Val()
	d := a.troupe(daemon{Concurrency: 1})
	a.awaitRuns(1)
	a.push("default", task, map[string]any{"behind": 1})
	d.Signal(syscall.SIGTERM)
	d.Exit(harness.Patience)
	after := a.rdb.LRange(ctx, a.prefix+"queues:default", 0, -1).Val()
	if len(after) != 2 || after[0] != before[0] || a.sizes("default") != "2 ready, 0 delayed, 0 reserved" {
		t.Errorf("the queue is %q, %s", after, a.sizes("default"))
	}
	a.work("--stop-when-empty").exits(t)
	if got := shown(a.runs()[1:]); !strings.Contains(got, `php task {"sleep":3} 1; php task {"behind":1} 1`) {
		t.Errorf("runs %s", got)
	}
	a.awaitEmpty()
}

// A release is an attempt on either side.
func TestReleasesAcrossSides(t *testing.T) {
	t.Parallel()
	a := newApp(t, "laravel_database_")
	a.pushed(laravel.Job{Queue: "default", Name: task, MaxTries: 3, Data: map[string]any{"release": 1}})
	d := a.troupe(daemon{})
	a.awaitRuns(1)
	a.await("a release", func() bool { return a.sizes("default") == "0 ready, 1 delayed, 0 reserved" })
	d.Kill()
	a.work("--max-jobs=1").exits(t)
	a.pushed(laravel.Job{Queue: "default", Name: task, MaxTries: 3, Data: map[string]any{"release": 2}})
	w := a.work("--max-jobs=1")
	w.exits(t)
	a.troupe(daemon{})
	if got, want := shown(a.awaitRuns(4)), `troupe App\Jobs\Task {"release":1} 1; php task {"release":1} 2; php task {"release":2} 1; troupe App\Jobs\Task {"release":2} 2`; got != want {
		t.Errorf("runs %s, expected %s", got, want)
	}
	a.awaitEmpty()
}
