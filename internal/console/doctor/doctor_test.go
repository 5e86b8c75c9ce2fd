package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// found are the findings of an audit as "severity code".
func found(t *testing.T, rdb *redis.Client) (list []string, r *Report) {
	t.Helper()
	r = harness.Must(Examine(t.Context(), rdb))(t)
	for _, f := range r.Findings {
		list = append(list, f.Severity+" "+f.Code)
		if f.Text == "" || f.Do == "" {
			t.Errorf("finding %+v", f)
		}
	}
	return list, r
}

// outboxOf is a process with the relay of an outbox.
func outboxOf(now time.Time, relay string) [][]any {
	return [][]any{{"ZADD", "troupe:pulses", now.Unix(), "p"}, {"SET", "troupe:pulse:p", fmt.Sprintf(`{"at":%d,"outboxes":{"main":{%s}}}`, now.Unix(), relay)}}
}

func TestExamine(t *testing.T) {
	now := time.Now()
	beat := func(id string, at time.Time, queues string, quiet bool) []any {
		return []any{"HSET", id, "info", fmt.Sprintf(`{"hostname":"h","pid":1,"identity":%q,"queues":[%s]}`, id, queues), "beat", at.Unix(), "busy", 0, "quiet", fmt.Sprint(quiet)}
	}
	entry := func(line string, mark time.Time) [][]any {
		return [][]any{
			{"SADD", "cron_jobs:default", "cron_job:default:n"}, {"ZADD", "cron_job:default:n:enqueued", mark.Unix(), mark.UTC().Format(time.RFC3339)},
			{"HSET", "cron_job:default:n", "name", "n", "klass", "A", "cron", line, "status", "enabled", "message", `{"class":"A","queue":"a","args":[]}`},
		}
	}
	for _, c := range []struct {
		name string
		do   [][]any
		want string // "" is healthy
	}{
		{"healthy", nil, ""},
		{"evicting", [][]any{{"CONFIG", "SET", "maxmemory", "900mb"}, {"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"}}, "danger eviction"},
		{"would evict", [][]any{{"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"}}, "warning eviction"},
		{"full", [][]any{{"CONFIG", "SET", "maxmemory", "1mb"}}, "danger writes, warning eviction"},
		{"nothing on disk", [][]any{{"CONFIG", "SET", "appendonly", "no"}}, "danger persistence"},
		{"snapshots only", [][]any{{"CONFIG", "SET", "appendonly", "no"}, {"CONFIG", "SET", "save", "900 1"}}, "warning persistence"},
		{"replica", [][]any{{"CONFIG", "SET", "replica-read-only", "no"}, {"REPLICAOF", "127.0.0.1", "1"}}, "danger replica"},
		{"idle clients are cut", [][]any{{"CONFIG", "SET", "timeout", "20"}, {"CONFIG", "SET", "tcp-keepalive", "0"}}, "warning timeouts, note timeouts"},
		{"wrong type of a set", [][]any{{"SET", "retry", "x"}}, "danger types"},
		{"wrong type of a queue", [][]any{{"SADD", "queues", "a"}, {"SET", "queue:a", "x"}}, "danger types"},
		{"nobody listens", [][]any{{"SADD", "queues", "a"}, {"LPUSH", "queue:a", `{"jid":"1"}`}}, "danger listeners"},
		{"all are quiet", [][]any{{"SADD", "queues", "a"}, {"LPUSH", "queue:a", `{"jid":"1"}`}, {"SADD", "processes", "p"}, beat("p", now, `"a"`, true)}, "danger listeners"},
		{"who listens is silent", [][]any{{"SADD", "queues", "a"}, {"LPUSH", "queue:a", `{"jid":"1"}`}, {"SADD", "processes", "p"}, beat("p", now.Add(-40*time.Second), `"a"`, false)}, "danger listeners, warning dead processes"},
		{"somebody listens", [][]any{{"SADD", "queues", "a"}, {"LPUSH", "queue:a", `{"jid":"1"}`}, {"SADD", "processes", "p"}, beat("p", now, `"a"`, false)}, ""},
		{"who listens keeps a queue of this name elsewhere", [][]any{{"SADD", "queues", "a"}, {"LPUSH", "queue:a", `{"jid":"1"}`}, {"SADD", "processes", "p"}, beat("p", now, `"a"`, false),
			{"ZADD", "troupe:pulses", now.Unix(), "p"}, {"SET", "troupe:pulse:p", `{"phase":"running","elsewhere":{"a":"laravel"}}`}}, "danger listeners"},
		{"paused", [][]any{{"SADD", "queues", "a"}, {"LPUSH", "queue:a", `{"jid":"1"}`}, {"SADD", "paused", "a"}}, "note listeners"},
		{"a periodic job that cannot be carried out", append(entry("x", now), []any{"SADD", "processes", "p"}, beat("p", now, `"a"`, false)), "danger periodic"},
		{"that nobody deals with", append(entry("* * * * * *", now.Add(-time.Hour)), []any{"SADD", "processes", "p"}, beat("p", now, `"a"`, false)), "danger periodic"},
		{"that is disabled", append(entry("* * * * *", now.Add(-time.Hour)), []any{"HSET", "cron_job:default:n", "status", "disabled"}), ""},
		{"whose queue has no listener", entry("@yearly", now), "warning periodic"},
		{"whose class has no handler", append(entry("@yearly", now), []any{"SADD", "processes", "p"}, beat("p", now, `"a"`, false), []any{"ZADD", "retry", now.Unix() + 60, fmt.Sprintf(`{"jid":"1","class":"A","queue":"a","failed_at":%d,"error_class":"troupe.UnknownClassError"}`, now.Unix())}), "warning handlers, warning periodic"},
		{"that is well", append(entry("@yearly", now), []any{"SADD", "processes", "p"}, beat("p", now, `"a"`, false)), ""},
		{"overdue", [][]any{{"ZADD", "schedule", now.Unix() - 100, `{"jid":"1"}`}}, "danger overdue"},
		{"due just now", [][]any{{"ZADD", "schedule", now.Unix() - 10, `{"jid":"1"}`}}, ""},
		{"silent", [][]any{{"SADD", "processes", "p"}, beat("p", now.Add(-40*time.Second), "", false)}, "warning dead processes"},
		{"slow", [][]any{{"SADD", "processes", "p"}, append(beat("p", now, "", false), "rtt_us", 80000)}, "warning round trips"},
		{"an outbox that nobody relays", outboxOf(now, `"state":"no_database","error":"refused"`), "danger outboxes"},
		{"an outbox whose rows wait, or can be no jobs", outboxOf(now, `"state":"leads","waiting":2,"oldest":"2026-01-01T00:00:00Z","refused":1,"reason":"class"`), "danger outboxes, warning outboxes"},
		{"an outbox that is well", outboxOf(now, `"state":"leads","waiting":2`), ""},
		{"an outbox whose relay is elsewhere", outboxOf(now, `"state":"waits"`), ""},
		{"nobody reads a log", [][]any{{"SADD", "processes", "p"}, beat("p", now, "", false), {"ZADD", "troupe:pulses", now.Unix(), "p"},
			{"SET", "troupe:pulse:p", `{"log":"blocked","log_dropped":7}`}}, "warning logs"},
		{"gone", [][]any{{"SADD", "processes", "p"}}, "note dead processes"},
		{"ahead", [][]any{{"SADD", "processes", "p"}, beat("p", now.Add(40*time.Second), "", false)}, "warning clock"},
		{"suspects", [][]any{{"SADD", "queues", "a.suspects"}, {"LPUSH", "queue:a.suspects", `{"jid":"1"}`}}, "warning suspects"},
		{"no jobs", [][]any{{"ZADD", "retry", now.Unix() + 100, "junk"}, {"SADD", "queues", "a"}, {"LPUSH", "queue:a", `junk`}, {"SADD", "processes", "p"}, beat("p", now, `"a"`, false)},
			"warning unreadable, warning unreadable"},
		{"an orphan", [][]any{{"HSET", "troupe:places", "h:1:aa#default.1", `{"v":2,"queues":["a"]}`}, {"HSET", "troupe:inprogress:h:1:aa#default.1", "1.1", "a 1795000000000"},
			{"RPUSH", "troupe:claim:h:1:aa#default.1:1.1", `{"jid":"1"}`}}, "danger orphans"},
		{"a lock whose job is gone", [][]any{{"SET", "troupe:lock:a", "gone", "PX", 600000}, {"HSET", "troupe:conflicts", "troupe:lock:a", "gone"}}, "warning locks"},
		{"a lock whose job has ended, and that refuses nothing", [][]any{{"SET", "troupe:lock:a", "gone", "PX", 600000}}, "note locks"},
		{"a lock whose job is to run", [][]any{{"SET", "troupe:lock:a", "j1", "PX", 600000}, {"HSET", "troupe:conflicts", "troupe:lock:a", "j1"}, {"ZADD", "schedule", now.Unix() + 100, `{"class":"A","args":[],"jid":"j1"}`}}, ""},
		{"a limit that is as it should be", append(heldBy("one", "1", now), []any{"ZADD", "troupe:slots:one", now.Unix() + 40, "nobody"}), ""},
		{"a limit of 0", heldBy("one", "0", now), "warning limits"},
		{"a limit of 0 that holds nothing", [][]any{{"HSET", "troupe:limits", "one", "0"}}, ""},
		{"a limit that nobody has", heldBy("one", "", now), "danger limits"},
		{"a key that never frees", append(heldBy("one:7", "1", now.Add(-2*time.Hour)), []any{"ZADD", "troupe:slots:one:7", now.Unix() + 40, "runs"}), "note limits"},
		{"a rate that is too low", heldBy("one", "1 4000", now.Add(-2*time.Hour)), "note limits"},
		{"nobody lets jobs in", heldBy("one", "1", now.Add(-2*time.Hour)), "warning limits"},
		{"a slot of a job that is nowhere", append(heldBy("one", "1", now), []any{"ZADD", "troupe:slots:one", now.Unix() + 500, "nobody"}), "warning limits"},
		{"a long slot of a job that is to be retried", append(heldBy("one", "1", now), []any{"ZADD", "troupe:slots:one", now.Unix() + 500, "j1"}, []any{"ZADD", "retry", now.Unix() + 100, `{"class":"A","args":[],"jid":"j1"}`}), ""},
		{"a run that was given up", append(heldBy("one", "1", now), []any{"ZADD", "troupe:slots:one", now.Unix() + 40, "j1~1.1"}), "warning limits"},
		{"a batch whose jobs wait", append(batchOf(now.Add(-time.Hour), 1, 1), []any{"ZADD", "schedule", now.Unix() + 100, `{"class":"A","args":[],"jid":"j1","t_batch":"b1:0"}`}), ""},
		{"a batch whose job is nowhere", batchOf(now.Add(-time.Hour), 1, 1), "warning batches"},
		{"that has counted just now", batchOf(now, 1, 1), ""},
		{"an open one", append(batchOf(now.Add(-48*time.Hour), 0, 0), []any{"HDEL", "troupe:batch:b1", "closed"}), "note batches"},
		{"one whose callback is refused", append(batchOf(now, 0, 0), []any{"HSET", "troupe:batch:b1", "to:complete", "a", "on:complete", "{"}), "danger batches"},
		{"another layout", [][]any{{"HSET", "troupe:places", "h:1:aa#default.1", `{"v":9}`}, {"HSET", "troupe:procs", "x", "y"}}, "warning layouts, warning layouts"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, "--appendonly", "yes", "--maxmemory-policy", "noeviction")
			opt := harness.Must(redis.ParseURL(server.URL(0)))(t)
			opt.Protocol = 2
			rdb := redis.NewClient(opt)
			defer rdb.Close()
			for _, args := range c.do {
				if err := rdb.Do(t.Context(), args...).Err(); err != nil {
					t.Fatal(args, err)
				}
			}
			before := dump(t, rdb)
			got, r := found(t, rdb)
			if strings.Join(got, ", ") != c.want || r.Healthy == (strings.Contains(c.want, "danger") || strings.Contains(c.want, "warning")) {
				t.Errorf("found %q, healthy %v, expected %s: %+v", got, r.Healthy, c.want, r.Findings)
			}
			blind := c.name == "wrong type of a set" // it cannot be read then
			if len(r.Unchecked) > 0 != blind || len(r.Checked)+len(r.Unchecked) != len(checks) {
				t.Errorf("unchecked %q", r.Unchecked)
			}
			if after := dump(t, rdb); !maps.Equal(before, after) {
				t.Errorf("it has changed something: %v, was %v", after, before)
			}
		})
	}
}

// batchOf is a batch in which something was counted last at a time.
func batchOf(last time.Time, pending, unrun int) [][]any {
	return [][]any{{"HSET", "troupe:batch:b1", "total", 1, "pending", pending, "unrun", unrun, "closed", 1, "made", last.Unix(), "last", last.Unix()}, {"ZADD", "troupe:batches", time.Now().Unix() + 3600, "b1"}}
}

// heldBy are a rule that allows something, "" for one that is not defined, and a job that it holds since a time.
func heldBy(rule, allows string, since time.Time) [][]any {
	name, _, _ := strings.Cut(rule, ":")
	do := [][]any{
		{"ZADD", "troupe:held", since.Unix() + 7200, rule},
		{"ZADD", "troupe:held:" + rule, since.Unix(), fmt.Sprintf("%d.1.1 [\"queue:a\",\"a\",\"h1\",%q]\n{\"class\":\"A\",\"args\":[],\"jid\":\"h1\"}", since.UnixMicro(), rule)},
	}
	if allows != "" {
		do = append(do, []any{"HSET", "troupe:limits", name, allows})
	}
	return do
}

// A key is an argument of its jobs: what looks secret is masked.
func TestKeysOfLimitsAreNotTold(t *testing.T) {
	rdb, _ := redistest.New(t)
	for _, args := range append(heldBy("one:token=s3cr3t", "1", time.Now().Add(-2*time.Hour)), []any{"ZADD", "troupe:slots:one:token=s3cr3t", time.Now().Unix() + 40, "runs"}) {
		harness.OK(t, rdb.Do(t.Context(), args...).Err())
	}
	_, r := found(t, rdb)
	var limits []Finding
	for _, f := range r.Findings {
		if f.Code == "limits" {
			limits = append(limits, f)
		}
	}
	if len(limits) != 1 || !strings.Contains(limits[0].Text, "the limit one:[masked] holds 1 job") || !strings.Contains(limits[0].Text, "taken, by runs") || !strings.Contains(limits[0].Do, "limits show one tells") {
		t.Errorf("%+v", limits)
	}
}

// dump is every key with its contents.
func dump(t *testing.T, rdb *redis.Client) map[string]string {
	t.Helper()
	keys := harness.Must(rdb.Keys(t.Context(), "*").Result())(t)
	all := map[string]string{}
	for _, key := range keys {
		all[key] = rdb.Dump(t.Context(), key).Val()
	}
	return all
}

// What a user may not look at is told, and the rest is looked at.
func TestAUserWithFewRights(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr})
	defer rdb.Close()
	ctx := t.Context()
	harness.OK(t, rdb.Do(ctx, "ACL", "SETUSER", "few", "on", ">x", "~*", "&*", "+@read", "+ping", "+select", "+multi", "+exec").Err())
	harness.OK(t, rdb.ZAdd(ctx, "schedule", redis.Z{Score: 1, Member: "{}"}).Err())
	few := redis.NewClient(&redis.Options{Addr: rdb.Options().Addr, Username: "few", Password: "x"})
	defer few.Close()
	got, r := found(t, few)
	if !slices.Contains(got, "danger overdue") || !slices.Contains(got, "note rights") {
		t.Errorf("found %q", got)
	}
	text := strings.Join(r.Unchecked, "\n")
	for _, code := range []string{"version: the user may not call INFO", "eviction: ", "persistence: ", "timeouts: NOPERM", "clock: NOPERM"} {
		if !strings.Contains(text, code) {
			t.Errorf("unchecked are %s, expected %s", text, code)
		}
	}
}

// Each check is made for itself, and the fault has its name, where Redis can be read only.
func TestARedisThatTakesNoWrites(t *testing.T) {
	fill := func(rdb *redis.Client) {
		for _, args := range [][]any{{"ZADD", "schedule", 1, "{}"}, {"SADD", "queues", "a"}, {"LPUSH", "queue:a", "{}"}} {
			if err := rdb.Do(t.Context(), args...).Err(); err != nil {
				t.Fatal(args, err)
			}
		}
	}
	for _, state := range redistest.Unwritables(t, fill) {
		t.Run(state.Name, func(t *testing.T) {
			opt := harness.Must(redis.ParseURL(state.URL))(t)
			rdb := redis.NewClient(opt)
			defer rdb.Close()
			got, r := found(t, rdb)
			want, text := "danger writes", state.Code
			switch state.Code {
			case "READONLY":
				want, text = "danger replica", "nothing can be written"
			case "NOPERM":
				want, text = "note rights", "the user may not take jobs"
			}
			told := fmt.Sprintf("%+v", r.Findings)
			if !slices.Contains(got, want) || !slices.Contains(got, "danger overdue") || !slices.Contains(got, "danger listeners") || !strings.Contains(told, text) {
				t.Errorf("found %q, expected %s, overdue and listeners: %s", got, want, told)
			}
			blind := []string{}
			if state.Code == "NOPERM" {
				blind = []string{"clock", "eviction", "persistence", "replica", "timeouts", "version"} // of INFO, CONFIG and TIME
			}
			var unchecked []string
			for _, u := range r.Unchecked {
				code, _, _ := strings.Cut(u, ":")
				unchecked = append(unchecked, code)
			}
			if slices.Sort(unchecked); !slices.Equal(unchecked, blind) {
				t.Errorf("unchecked are %q, expected %q", r.Unchecked, blind)
			}
		})
	}
}

func TestNoRedis(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	defer rdb.Close()
	if r, err := Examine(context.Background(), rdb); err == nil {
		t.Errorf("%+v", r)
	}
}

// Classes that nobody has a handler for, and those that only fail, are told.
func TestClassesThatFail(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx, now := t.Context(), time.Now()
	failed := func(class, jid, error, message string, at time.Time) string {
		return fmt.Sprintf(`{"class":%q,"args":[],"queue":"default","jid":%q,"error_class":%q,"error_message":%q,"failed_at":%d}`, class, jid, error, message, at.Unix())
	}
	rdb.ZAdd(ctx, "retry", redis.Z{Score: float64(now.Unix() + 60), Member: failed("Lost", "l1", "troupe.UnknownClassError", `no handler for class "Lost"`, now)})
	rdb.ZAdd(ctx, "dead", redis.Z{Score: float64(now.Unix()), Member: failed("Lost", "l2", "troupe.UnknownClassError", `no handler for class "Lost"`, now)},
		redis.Z{Score: float64(now.Unix()), Member: failed("Gone::Ruby", "r1", "NameError", "uninitialized constant Gone::Ruby", now)},
		redis.Z{Score: float64(now.Unix()), Member: failed("Fine", "f1", "NameError", "uninitialized constant Net::Typo", now)},
		redis.Z{Score: float64(now.Unix()), Member: failed("Old", "o1", "troupe.UnknownClassError", `no handler for class "Old"`, now.Add(-48*time.Hour))})
	for class, n := range map[string][2]int{"Lost": {9, 9}, "Breaks": {1200, 1200}, "Mixed": {9, 8}, "Few": {2, 2}} {
		rdb.HSet(ctx, keys.Counters8(now), class+"|p", n[0], class+"|f", n[1])
	}
	_, r := found(t, rdb)
	var got []string
	for _, f := range r.Findings {
		if f.Class != "" {
			got = append(got, f.Severity+" "+f.Code+": "+f.Text)
		}
	}
	want := []string{
		"warning handlers: the class Gone::Ruby has no handler where its jobs run: 1 job failed for that",
		"warning handlers: the class Lost has no handler where its jobs run: 2 jobs failed for that",
		"warning failing: all 1,200 runs of the class Breaks within the last hour have failed",
	}
	if !slices.Equal(got, want) {
		t.Errorf("found\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
