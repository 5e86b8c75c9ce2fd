package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// numbers is what Sidekiq's own API tells of each Redis of ARGV, as lists of lists.
const numbers = `
require 'sidekiq'; require 'sidekiq/api'; require 'json'
$stdout.set_encoding('UTF-8')
Sidekiq.logger.level = Logger::ERROR
all = ARGV.map do |url|
  Sidekiq.redis = { url: url }
  s = Sidekiq::Stats.new
  sets = [Sidekiq::RetrySet, Sidekiq::ScheduledSet, Sidekiq::DeadSet].map { |c| c.new.map { |e| [e.score, e.klass.to_s, e.jid.to_s, e.queue.to_s] }.sort_by(&:first) }
  {
    stats: [s.processed, s.failed, s.enqueued, s.workers_size, s.scheduled_size, s.retry_size, s.dead_size, s.processes_size],
    default_latency: s.default_queue_latency,
    queues: Sidekiq::Queue.all.map { |q| [q.name, q.size] }.sort, latencies: Sidekiq::Queue.all.map { |q| [q.name, q.latency] }.sort,
    jobs: Sidekiq::Queue.all.sort_by(&:name).map { |q| q.map { |j| [j.klass.to_s, j.jid.to_s] } },
    retry: sets[0], scheduled: sets[1], dead: sets[2],
    processes: Sidekiq::ProcessSet.new(false).map { |p| [p.identity, p.tag.to_s, p['version'].to_s, p['busy'], p['concurrency'], p.queues, p.stopping?, p['rss']] },
    works: Sidekiq::Workers.new.map { |id, _, w| [w['queue'], w['payload']['jid'], w['run_at']] }.sort_by { |w| [w[2], w[1]] },
  }
end
print JSON.generate(all)`

// random fills a Redis: queues, sets and processes of any number, by seed.
func random(t *testing.T, rdb *redis.Client, r *rand.Rand) {
	t.Helper()
	pipe, ctx := rdb.Pipeline(), t.Context()
	now := float64(time.Now().UnixMilli()) / 1e3
	n := 0
	job := func(queue string, more string) string {
		n++
		at := now - r.Float64()*1e6
		return fmt.Sprintf(`{"retry":%v,"queue":%q,"class":"C%d","args":[%d],"jid":"%024x","created_at":%f,"enqueued_at":%f%s}`, r.IntN(2) == 0, queue, r.IntN(3), n, n, at, at, more)
	}
	names := []string{"default", "low", "crit", "a b", "é", "x:y"}[:r.IntN(7)]
	for _, name := range names {
		pipe.SAdd(ctx, "queues", name)
		for range r.IntN(3) * r.IntN(70) {
			pipe.LPush(ctx, "queue:"+name, job(name, ""))
		}
	}
	for _, key := range []string{"retry", "schedule", "dead"} {
		for range r.IntN(130) {
			member := job("default", fmt.Sprintf(`,"error_class":"E","error_message":"m","retry_count":%d`, r.IntN(5)))
			if key == "dead" && r.IntN(10) == 0 {
				member = fmt.Sprintf("junk %d", n)
			}
			pipe.ZAdd(ctx, key, redis.Z{Score: float64(int64((now+float64(r.IntN(100)-50))*1e4))/1e4 + float64(n)/1e6, Member: member})
		}
	}
	if r.IntN(4) > 0 {
		pipe.MSet(ctx, "stat:processed", r.Int64N(1<<53), "stat:failed", r.IntN(1000))
	}
	for p := range r.IntN(12) {
		id := fmt.Sprintf("host%d:%d:%012x", p, r.IntN(30000), r.Int64N(1<<48))
		pipe.SAdd(ctx, "processes", id)
		if r.IntN(6) == 0 {
			continue // it has died
		}
		queues, _ := json.Marshal(append([]string{}, names[:r.IntN(len(names)+1)]...))
		version := []string{"", `,"version":"7.3.9","embedded":false`}[r.IntN(2)]
		pipe.HSet(ctx, id, "info", fmt.Sprintf(`{"hostname":"h","started_at":%f,"pid":1,"tag":%q,"concurrency":%d,"queues":%s,"labels":[],"identity":%q%s}`, now-100, []string{"", "shop"}[r.IntN(2)], r.IntN(20), queues, id, version),
			"busy", r.IntN(9), "beat", now, "quiet", fmt.Sprint(r.IntN(2) == 0), "rss", r.IntN(1e6), "rtt_us", 99)
		for w := range r.IntN(5) {
			text, _ := json.Marshal(job("default", ""))
			pipe.HSet(ctx, id+":workers", fmt.Sprintf("t%d", w), fmt.Sprintf(`{"queue":"default","payload":%s,"run_at":%d}`, text, int64(now)-r.Int64N(1e5)))
		}
	}
	harness.Must(pipe.Exec(ctx))(t)
}

// Ruby's own API and the commands tell the same numbers of random contents.
func TestRubyAndTheCommandsTellTheSame(t *testing.T) {
	t.Parallel()
	redistest.NeedSidekiq(t)
	const databases = 12
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	var urls []string
	var mine []map[string]any
	rows := func(url string, words ...string) (all []map[string]any) {
		t.Helper()
		got := call(t.Context(), append(words, "--json", "--read-only", "--args", "show", "--redis", url)...)
		if got.code != 0 {
			t.Fatalf("%q: %s", words, got)
		}
		for line := range strings.Lines(got.out) {
			var row map[string]any
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				t.Fatal(line, err)
			}
			all = append(all, row)
		}
		return all
	}
	pick := func(rows []map[string]any, keys ...string) []any {
		all := []any{}
		for _, row := range rows {
			var one []any
			for _, key := range keys {
				one = append(one, row[key])
			}
			all = append(all, one)
		}
		return all
	}
	byName := func(rows []map[string]any) []map[string]any {
		return sorted(rows, func(row map[string]any) string { return row["name"].(string) })
	}
	for n := range databases {
		rdb, url := redistest.New(t)
		random(t, rdb, rand.New(rand.NewPCG(uint64(seed), uint64(n)))) //nolint:gosec // a seed
		urls = append(urls, url)
		stats := rows(url, "stats")[0]
		one := map[string]any{
			"stats":           pick([]map[string]any{stats}, "processed", "failed", "enqueued", "running", "scheduled", "retry", "dead", "processes")[0],
			"default_latency": stats["default_latency_s"],
		}
		queues := byName(rows(url, "queues", "--over", "0"))
		one["queues"], one["latencies"] = pick(queues, "name", "waiting"), pick(queues, "name", "latency_s")
		jobs := []any{}
		for _, q := range queues {
			jobs = append(jobs, pick(rows(url, "jobs", "list", "queue:"+q["name"].(string), "--limit", "0"), "class", "jid"))
		}
		one["jobs"] = jobs
		for _, set := range []string{"retry", "scheduled", "dead"} {
			entries := rows(url, "jobs", "export", set)
			list := rows(url, "jobs", "list", set, "--limit", "0")
			if len(entries) != len(list) {
				t.Errorf("%s: %d exported, %d listed", set, len(entries), len(list))
			}
			for i, e := range entries {
				score := harness.Must(strconv.ParseFloat(e["score"].(string), 64))(t)
				list[i]["score"] = score
			}
			one[set] = pick(sorted(list, func(row map[string]any) float64 { return row["score"].(float64) }), "score", "class", "jid", "queue")
		}
		processes := rows(url, "ps")
		for _, p := range processes {
			p["quiet"] = p["phase"] == "quiet"
		}
		one["processes"] = pick(processes, "identity", "tag", "version", "busy", "slots", "queues", "quiet", "rss_kb")
		works := rows(url, "jobs", "list", "running", "--limit", "0")
		for _, w := range works {
			at := harness.Must(time.Parse(time.RFC3339, w["when"].(string)))(t)
			w["run_at"] = at.Unix()
		}
		one["works"] = pick(sorted(works, func(row map[string]any) string { return fmt.Sprintf("%v %v", row["run_at"], row["jid"]) }), "queue", "jid", "run_at")
		mine = append(mine, one)
	}
	out, err := exec.CommandContext(t.Context(), "ruby", append([]string{"-W0", "-EUTF-8:UTF-8", "-e", numbers}, urls...)...).Output() //nolint:gosec // our own script
	if err != nil {
		t.Fatalf("ruby: %v %s", err, out)
	}
	var theirs, ours []map[string]any
	harness.OK(t, json.Unmarshal(out, &theirs))
	text, err := json.Marshal(mine)
	if err == nil {
		err = json.Unmarshal(text, &ours)
	}
	harness.OK(t, err)
	for n := range databases {
		for key := range theirs[n] {
			within := 1e-5
			if strings.Contains(key, "latenc") {
				within = 60 // Ruby looks later
			}
			if diff := gocmp.Diff(theirs[n][key], ours[n][key], cmpopts.EquateApprox(0, within), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("database %d of seed %d: %s: -Ruby +troupe:\n%s", n, seed, key, diff)
			}
		}
	}
}

func sorted[T cmp.Ordered](rows []map[string]any, by func(map[string]any) T) []map[string]any {
	return slices.SortedStableFunc(slices.Values(rows), func(a, b map[string]any) int { return cmp.Compare(by(a), by(b)) })
}
