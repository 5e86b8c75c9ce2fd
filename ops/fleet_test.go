package ops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// fleetOf is the exposition of the metrics of a fleet.
func fleetOf(t *testing.T, rdb redis.UniversalClient) (string, error) {
	t.Helper()
	return gather(t, Fleet(rdb))
}

func gather(t *testing.T, c prometheus.Collector) (string, error) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	var b bytes.Buffer
	for _, f := range families {
		harness.Must(expfmt.MetricFamilyToText(&b, f))(t)
	}
	return b.String(), err
}

// do makes changes in Redis.
func do(t *testing.T, rdb *redis.Client, commands ...[]any) {
	t.Helper()
	for _, c := range commands {
		if err := rdb.Do(t.Context(), c...).Err(); err != nil {
			t.Fatalf("%v: %v", c, err)
		}
	}
}

// process puts a process on the list, which has beaten so long ago.
func process(t *testing.T, rdb *redis.Client, id, queues string, quiet bool, ago time.Duration) {
	t.Helper()
	info := fmt.Sprintf(`{"hostname":"h","pid":1,"identity":%q,"concurrency":5,"queues":%s}`, id, queues)
	beat := float64(time.Now().Add(-ago).UnixMilli()) / 1e3
	do(t, rdb, []any{"sadd", "processes", id}, []any{"hset", id, "info", info, "busy", 0, "beat", beat, "quiet", strconv.FormatBool(quiet)})
}

func TestFleetAsRedisShowsIt(t *testing.T) {
	rdb, _ := redistest.New(t)
	now := time.Now()
	job := func(at time.Time) string {
		return fmt.Sprintf(`{"class":"A","args":[],"jid":"x","enqueued_at":%d}`, at.UnixMilli())
	}
	process(t, rdb, "ruby:1:a", `["default"]`, false, 0)
	process(t, rdb, "ruby:2:b", `["default","low"]`, true, 0)
	process(t, rdb, "ruby:3:c", `["default"]`, false, 40*time.Second)
	process(t, rdb, "go:4:d", `["default","mail"]`, false, 0)
	do(t, rdb,
		[]any{"set", "troupe:pulse:go:4:d", fmt.Sprintf(`{"at":%d,"phase":"running"}`, now.Unix())},
		[]any{"zadd", "troupe:pulses", now.Unix(), "go:4:d"},
		[]any{"sadd", "queues", "default", "low", "mail"},
		[]any{"lpush", "queue:default", job(now.Add(-90 * time.Second)), job(now)},
		[]any{"lpush", "queue:low", job(now)},
		[]any{"sadd", "paused", "low"},
		[]any{"zadd", "retry", now.Unix() - 300, "due", now.Unix() + 300, "later"},
		[]any{"zadd", "schedule", now.Unix() + 60, "later"},
		[]any{"zadd", "dead", now.Unix() - 3600, "a", now.Unix() - 60, "b", now.Unix(), "c"},
		// 3 jobs of a process that is gone, and one of a process that lives
		[]any{"rpush", "troupe:claim:gone:5:e#default.1:1.1", "a", "b", "c"},
		[]any{"hset", "troupe:inprogress:gone:5:e#default.1", "!", "1 1", "1.1", "default 1"},
		[]any{"rpush", "troupe:claim:go:4:d#default.1:1.1", "a"},
		[]any{"hset", "troupe:inprogress:go:4:d#default.1", "!", "1 1", "1.1", "default 1"},
		[]any{"set", "troupe:lease:go:4:d#default.1", 1},
		[]any{"hset", "troupe:places", "gone:5:e#default.1", `{"v":2,"queues":["default"]}`, "go:4:d#default.1", `{"v":2,"queues":["default"]}`},
	)
	text := harness.Must(fleetOf(t, rdb))(t)
	got := series(text)
	for name, want := range map[string]float64{
		`queue_jobs{queue="default"}`: 2, `queue_jobs{queue="low"}`: 1, `queue_jobs{queue="mail"}`: 0,
		`queue_paused{queue="default"}`: 0, `queue_paused{queue="low"}`: 1,
		`queue_listeners{queue="default"}`: 2, `queue_listeners{queue="low"}`: 0, `queue_listeners{queue="mail"}`: 1,
		`queue_latency_seconds{queue="default"}`: 90, `queue_latency_seconds{queue="mail"}`: 0,
		`set_jobs{set="retry"}`: 2, `set_jobs{set="schedule"}`: 1, `set_jobs{set="dead"}`: 3,
		`set_overdue_seconds{set="retry"}`: 300, `set_overdue_seconds{set="schedule"}`: 0,
		`fleet_processes{phase="running",runtime="ruby"}`: 1, `fleet_processes{phase="quiet",runtime="ruby"}`: 1,
		`fleet_processes{phase="silent",runtime="ruby"}`: 1, `fleet_processes{phase="running",runtime="troupe"}`: 1,
		`fleet_processes{phase="quiet",runtime="troupe"}`: 0, `orphaned_jobs`: 3,
	} {
		v, err := strconv.ParseFloat(got[prefix+name], 64)
		if err != nil || v < want || v > want*1.2 { // time passes
			t.Errorf("%s is %q, want %v", name, got[prefix+name], want)
		}
	}
	if _, ok := got[prefix+`set_overdue_seconds{set="dead"}`]; ok {
		t.Error("dead jobs are overdue")
	}
	promtool(t, "", text, "check", "metrics")
}

func TestFleetOfARunningDaemon(t *testing.T) {
	k := world(t)
	text := harness.Must(fleetOf(t, k.Redis))(t)
	got := series(text)
	for name, want := range map[string]string{
		`fleet_processes{phase="running",runtime="troupe"}`: "1", `set_jobs{set="retry"}`: "60", `orphaned_jobs`: "0", `queue_listeners{queue="default"}`: "1",
	} {
		if got[prefix+name] != want {
			t.Errorf("%s is %q, want %s", name, got[prefix+name], want)
		}
	}
	if exposed := names(text); len(exposed) != len(fleetMetrics) {
		t.Errorf("exposed %v", exposed)
	}
}

// Names that others have pushed to can be many, and no text.
func TestQueuesOfAFleetAreBounded(t *testing.T) {
	rdb, _ := redistest.New(t)
	for i := range 200 {
		do(t, rdb, []any{"sadd", "queues", fmt.Sprintf("q%d\xff\"\n", i)}, []any{"lpush", fmt.Sprintf("queue:q%d\xff\"\n", i), "x"})
	}
	text := harness.Must(fleetOf(t, rdb))(t)
	queues, jobs := 0, 0
	for name, v := range series(text) {
		if strings.HasPrefix(name, queueJobs.name) {
			n, _ := strconv.Atoi(v)
			queues, jobs = queues+1, jobs+n
		}
	}
	if queues != 100 || jobs != 200 {
		t.Errorf("%d queues with %d jobs", queues, jobs)
	}
	promtool(t, "", text, "check", "metrics")
}

// However many jobs there are, a look at them costs the same memory.
func TestALookAtManyJobsCostsWhatOneAtFewDoes(t *testing.T) {
	rdb, _ := redistest.New(t)
	cost := func() uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		harness.Must(fleetOf(t, rdb))(t)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	const fill = `
		local text = string.rep('x', 100)
		for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do
			redis.call('LPUSH', 'queue:default', text .. i)
			for _, set in ipairs({'retry', 'schedule', 'dead'}) do
				redis.call('ZADD', set, i, text .. i)
			end
		end
		return 1`
	do(t, rdb, []any{"sadd", "queues", "default"}, []any{"eval", fill, 0, 1, 10})
	cost()
	few := cost()
	for i := range 10 {
		do(t, rdb, []any{"eval", fill, 0, 100 + i*3_000, 100 + (i+1)*3_000})
	}
	if many := cost(); many > few+few/2+100_000 {
		t.Errorf("%d bytes of 10 jobs, %d of 30,000", few, many)
	}
}

// A Redis that does not answer is an error, and no metrics that look fine.
func TestFleetWithoutRedis(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	if text, err := fleetOf(t, rdb); err == nil || strings.Contains(text, prefix) {
		t.Errorf("%v: %s", err, text)
	}
}

// One that hangs costs a scrape a bounded time.
func TestFleetWithAHungRedis(t *testing.T) {
	s := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr, ContextTimeoutEnabled: true, ReadTimeout: time.Hour, MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	do(t, rdb, []any{"client", "pause", 60_000, "all"})
	f := fleetCollector{fleet.New(rdb, nil), 50 * time.Millisecond}
	if _, err := gather(t, f); !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(fmt.Sprint(err), "i/o timeout") {
		t.Errorf("%v", err)
	}
}
