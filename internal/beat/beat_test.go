package beat

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

const id = "vm:24128:acf4dc59d44a"

func mustBeat(t *testing.T, rdb redis.UniversalClient, s State) Result {
	t.Helper()
	return mustBeatBy(t, new(Beater), rdb, s)
}

func mustBeatBy(t *testing.T, b *Beater, rdb redis.UniversalClient, s State, with ...func(redis.Pipeliner)) Result {
	t.Helper()
	r := harness.Must(b.Beat(t.Context(), rdb, s, with...))(t)
	return r
}

// ttl is the TTL that a key was given, if it was one of a multiple of 10 s: up
// to 10 s may have gone by since, for a slow test.
func ttl(rdb *redis.Client, key string) time.Duration {
	d := rdb.TTL(context.Background(), key).Val()
	if d < 0 { // it has none
		return d
	}
	const step = 10 * time.Second
	return (d + step - 1).Truncate(step)
}

func busyState() State {
	return State{
		Info: testInfo(id), Now: time.Unix(1795225102, 904857600), RSS: 29476,
		Work: []Work{
			{TID: "glk", Queue: "default", Payload: []byte(`{"class":"SlowJob","args":[13]}`), RunAt: time.Unix(1795225012, 999)},
			{TID: "glm", Queue: "crit", Payload: []byte("{\"args\":[\"<é\u2028\xff\"]}"), RunAt: time.Unix(1795225013, 0)},
		},
	}
}

func TestBeatWritesWhatSidekiqReads(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	r := mustBeat(t, rdb, busyState())
	if r.Existed || len(r.Signals) != 0 || r.RTT <= 0 {
		t.Errorf("first beat: %+v", r)
	}
	harness.EqualList(t, "processes", rdb.SMembers(ctx, "processes").Val(), []string{id})
	hash := rdb.HGetAll(ctx, id).Val()
	rtt := hash["rtt_us"]
	delete(hash, "rtt_us")
	for field, want := range map[string]string{
		"info": string(testInfo(id).JSON()), "concurrency": "4", "busy": "2", "beat": "1795225102.9048576", "quiet": "false", "rss": "29476",
	} {
		if hash[field] != want {
			t.Errorf("%s = %q, want %q", field, hash[field], want)
		}
		delete(hash, field)
	}
	if us, err := strconv.ParseInt(rtt, 10, 64); err != nil || us != r.RTT.Microseconds() {
		t.Errorf("rtt_us = %q, want %d", rtt, r.RTT.Microseconds())
	}
	if len(hash) != 0 {
		t.Errorf("fields too many: %v", hash)
	}
	wantWork := map[string]string{
		"glk": `{"queue":"default","payload":"{\"class\":\"SlowJob\",\"args\":[13]}","run_at":1795225012}`,
		"glm": "{\"queue\":\"crit\",\"payload\":\"{\\\"args\\\":[\\\"<é\u2028\ufffd\\\"]}\",\"run_at\":1795225013}",
	}
	work := rdb.HGetAll(ctx, id+":work").Val()
	for tid, want := range wantWork {
		if work[tid] != want {
			t.Errorf("work of %s\n got %s\nwant %s", tid, work[tid], want)
		}
	}
	if len(work) != 2 || rdb.Exists(ctx, id+":workers").Val() != 0 {
		t.Errorf("work %v, or an old key that nobody asked for", work)
	}
	for _, key := range []string{id, id + ":work"} {
		if got := ttl(rdb, key); got != 60*time.Second {
			t.Errorf("TTL of %s: %v", key, got)
		}
	}
}

func TestTheNextBeatReplacesTheWork(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	s, b := busyState(), new(Beater)
	s.WorkersKey = true
	mustBeatBy(t, b, rdb, s)
	harness.Equal(t, "old key has entries", rdb.HLen(ctx, id+":workers").Val(), 2)
	s.Work, s.Quiet = s.Work[1:], true
	if r := mustBeatBy(t, b, rdb, s); !r.Existed {
		t.Error("second beat: did not exist")
	}
	for _, key := range []string{id + ":work", id + ":workers"} {
		if got := rdb.HKeys(ctx, key).Val(); !slices.Equal(got, []string{"glm"}) {
			t.Errorf("%s: %q", key, got)
		}
	}
	if got := rdb.HMGet(ctx, id, "busy", "quiet").Val(); got[0] != "1" || got[1] != "true" {
		t.Errorf("busy, quiet: %v", got)
	}
	s.Work = nil
	mustBeatBy(t, b, rdb, s)
	harness.Equal(t, "an idle process has work keys", rdb.Exists(ctx, id+":work", id+":workers").Val(), 0)
}

// What an idle process sends at each beat: its hash, the tree, the question for
// signals, and no more; in one round trip, whose time is the next one's.
func TestAnIdleBeatIsOneTrip(t *testing.T) {
	server := redistest.Start(t) // of its own: what is counted is the server's
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1, PoolSize: 1})
	defer func() { _ = rdb.Close() }()
	count := func(what string) (n int) {
		info := harness.Must(rdb.Info(t.Context(), "stats", "commandstats").Result())(t)
		_, rest, found := strings.Cut(info, what)
		if found {
			rest, _, _ = strings.Cut(rest, ",")
			n, _ = strconv.Atoi(strings.TrimSpace(strings.Split(rest, "\r\n")[0]))
		}
		return n
	}
	b, idle := new(Beater), State{Info: testInfo(id), Now: time.Unix(1795225102, 0), Tree: []byte("[]")}
	pings := count("cmdstat_ping:calls=")
	first := mustBeatBy(t, b, rdb, idle)
	second := mustBeatBy(t, b, rdb, idle)
	if pings := count("cmdstat_ping:calls=") - pings; pings != 1 || second.RTT == first.RTT || second.RTT <= 0 {
		t.Errorf("%d pings, expected that of the first beat; round trips %v, %v", pings, first.RTT, second.RTT)
	}
	reads, commands := count("total_reads_processed:"), count("total_commands_processed:")
	const beats = 10
	for range beats {
		mustBeatBy(t, b, rdb, idle)
	}
	if got := count("total_reads_processed:") - reads; got > beats+2 { // two INFO
		t.Errorf("%d round trips for %d beats", got-2, beats)
	}
	if got := count("total_commands_processed:") - commands; got > 8*beats+2 { // MULTI, EXEC and six
		t.Errorf("%d commands for %d beats", got-2, beats)
	}
	harness.Equal(t, "times unlinked what was never there", count("cmdstat_unlink:calls="), 0)
	mustBeatBy(t, b, rdb, busyState())
	mustBeatBy(t, b, rdb, busyState())
	harness.Equal(t, "pings, expected one more for each beat with work", count("cmdstat_ping:calls=")-pings, 3)
}

// What travels with a beat arrives with it, and its failure is not the beat's;
// that of the beat is both's.
func TestCompanyOfABeat(t *testing.T) {
	rdb, _ := redistest.New(t)
	var sad *redis.IntCmd
	var set *redis.StatusCmd
	with := func(p redis.Pipeliner) {
		sad = p.LPush(t.Context(), "processes", "x")
		set = p.Set(t.Context(), "company", "came", 0)
	}
	r := mustBeatBy(t, new(Beater), rdb, busyState(), with)
	if r.Existed || sad.Err() == nil || set.Err() != nil || rdb.Get(t.Context(), "company").Val() != "came" {
		t.Errorf("beat %+v, company %v, %v", r, sad, set)
	}
	rdb.Set(t.Context(), "processes", "of the wrong type", 0)
	if _, err := new(Beater).Beat(t.Context(), rdb, busyState(), with); err == nil {
		t.Error("a beat that was refused in part is no error")
	}
}

func TestBeatTakesAllSignalsOldestFirst(t *testing.T) {
	full, _ := redistest.New(t)
	mini := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr(), MaxRetries: -1})
	defer func() { _ = mini.Close() }()
	for name, rdb := range map[string]*redis.Client{"redis": full, "miniredis": mini} {
		t.Run(name, func(t *testing.T) {
			for _, signal := range []string{"TSTP", "TTIN", "HUP", "TERM"} { // as the UI does
				rdb.LPush(t.Context(), id+"-signals", signal)
			}
			if r := mustBeat(t, rdb, State{Info: testInfo(id)}); !slices.Equal(r.Signals, []string{"TSTP", "TTIN", "HUP", "TERM"}) {
				t.Errorf("signals %q", r.Signals)
			}
			if r := mustBeat(t, rdb, busyState()); len(r.Signals) != 0 || !r.Existed {
				t.Errorf("second beat: %+v", r)
			}
		})
	}
}

func TestBeatAfterAnAbsence(t *testing.T) {
	rdb, _ := redistest.New(t)
	mustBeat(t, rdb, busyState())
	rdb.Del(t.Context(), id) // its lease is over
	if r := mustBeat(t, rdb, busyState()); r.Existed {
		t.Error("existed after its lease")
	}
}

func TestBeatWithoutRedis(t *testing.T) {
	s := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, DialerRetries: 1})
	defer func() { _ = rdb.Close() }()
	s.Kill()
	ctx := t.Context()
	f := NewFlusher(id)
	_, beatErr := new(Beater).Beat(ctx, rdb, busyState())
	_, cleanupErr := Cleanup(ctx, rdb)
	for what, err := range map[string]error{
		"beat": beatErr, "flush": f.Flush(ctx, rdb, Counts{1, 0}, time.Now()), "cleanup": cleanupErr,
		"clear": Clear(ctx, rdb, id),
	} {
		harness.ErrorHas(t, what, err, "connect")
	}
}

func TestBeatPublishesTheTree(t *testing.T) {
	rdb, _ := redistest.New(t)
	s := busyState()
	s.Tree = []byte(`{"name":"launcher"}`)
	mustBeat(t, rdb, s)
	key := "troupe:tree:" + id
	if got, left := rdb.Get(t.Context(), key).Val(), ttl(rdb, key); got != `{"name":"launcher"}` || left != Lease {
		t.Errorf("tree %s for %v", got, left)
	}
}

func TestClearLeavesNothing(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	other := busyState()
	other.Info.Identity = "vm:1:000000000000"
	s := busyState()
	s.WorkersKey, s.Tree = true, []byte("{}")
	mustBeat(t, rdb, s)
	mustBeat(t, rdb, other)
	harness.OK(t, NewFlusher(id).Flush(ctx, rdb, Counts{1, 1}, time.Now()))
	m, counted := newMetrics(both)
	counted.failed("A")
	mustMeasure(t, m, rdb, late)
	harness.OK(t, Clear(ctx, rdb, id))
	for _, key := range rdb.Keys(ctx, "*").Val() {
		if strings.Contains(key, id) {
			t.Errorf("left behind: %s", key)
		}
	}
	harness.EqualList(t, "processes", rdb.SMembers(ctx, "processes").Val(), []string{other.Info.Identity})
}

func TestCleanupRemovesTheSilentOnceAMinute(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	mustBeat(t, rdb, busyState())
	rdb.SAdd(ctx, "processes", "dead:1:a", "dead:2:b", "odd:3:c", "bare:4:d")
	rdb.Set(ctx, "odd:3:c", "not a hash", 0)
	rdb.HSet(ctx, "bare:4:d", "busy", 1)
	for i := range 500 { // more than a page
		rdb.SAdd(ctx, "processes", "dead:"+strconv.Itoa(100+i)+":e")
	}
	if n, err := Cleanup(ctx, rdb); err != nil || n != 504 {
		t.Errorf("removed %d, %v", n, err)
	}
	harness.EqualList(t, "processes", rdb.SMembers(ctx, "processes").Val(), []string{id})
	if got := ttl(rdb, "process_cleanup"); got != 60*time.Second || rdb.Get(ctx, "process_cleanup").Val() != "1" {
		t.Errorf("lock for %v", got)
	}
	rdb.SAdd(ctx, "processes", "dead:1:a")
	if n, err := Cleanup(ctx, rdb); err != nil || n != 0 {
		t.Errorf("within the minute: removed %d, %v", n, err)
	}
	rdb.Del(ctx, "process_cleanup")
	if n, err := Cleanup(ctx, rdb); err != nil || n != 1 {
		t.Errorf("after the minute: removed %d, %v", n, err)
	}
}

func TestOnACluster(t *testing.T) {
	s := redistest.Alone(t)
	ctx := t.Context()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.Addr}})
	defer func() { _ = rdb.Close() }()
	rdb.LPush(ctx, id+"-signals", "TSTP")
	if r := mustBeat(t, rdb, busyState()); !slices.Equal(r.Signals, []string{"TSTP"}) {
		t.Errorf("%+v", r)
	}
	harness.Check(t, NewFlusher(id).Flush(ctx, rdb, Counts{3, 1}, time.Now()))
	harness.Equal(t, "processed", rdb.Get(ctx, "stat:processed").Val(), "3")
	m, counted := newMetrics(both)
	counted.timed("A", 25*time.Millisecond)
	mustMeasure(t, m, rdb, late)
	if got := rdb.HGetAll(ctx, "j|261121|13:3").Val(); got["A|p"] != "1" || got["A|ms"] != "25" {
		t.Errorf("metrics %v", got)
	}
	harness.Equal(t, "histogram", rdb.Get(ctx, "h|A-21-13:37").Val(), "\x00\x00\x00\x01")
	rdb.Del(ctx, "j|20261121|13:37")
	rdb.Set(ctx, "j|20261121|13:37", "no hash", 0)
	counted.failed("A")
	if _, ok := errors.AsType[*RefusedError](m.Flush(ctx, rdb, late)); !ok || rdb.HGet(ctx, "j|261121|13:3", "A|f").Val() != "1" {
		t.Error("one key refuses: not refused, or the others not written")
	}
	if _, err := Cleanup(ctx, rdb); err != nil {
		t.Error(err)
	}
	harness.Check(t, Clear(ctx, rdb, id))
}

func TestIdentity(t *testing.T) {
	a, b := NewIdentity("vm", 42), NewIdentity("vm", 42)
	if len(a) != len("vm:42:")+12 || !strings.HasPrefix(a, "vm:42:") || a == b || strings.Trim(a[6:], "0123456789abcdef") != "" {
		t.Errorf("identities %s, %s", a, b)
	}
	harness.Equal(t, "with DYNO", Hostname(func(string) string { return "web.1" }), "web.1")
	if got := Hostname(func(string) string { return "" }); got == "" {
		t.Error("no host name")
	}
}

func TestRSSIsPlausible(t *testing.T) {
	for what, kb := range map[string]int64{"RSS": RSS(), "of the runtime": runtimeKB()} {
		if kb < 1<<10 || kb > 64<<20 {
			t.Errorf("%s: %d KB", what, kb)
		}
	}
}

func TestLatencyWarnsAfterFiveSlowOnes(t *testing.T) {
	var l Latency
	slow, fast := SlowRTT+1, SlowRTT
	for i, tt := range []struct {
		rtt  time.Duration
		warn bool
	}{
		{slow, false}, {slow, false}, {slow, false}, {slow, false}, {fast, false},
		{slow, false}, {slow, false}, {slow, false}, {slow, false}, {slow, true}, {slow, false},
	} {
		if got := l.Slow(tt.rtt); got != tt.warn {
			t.Errorf("reading %d (%v): %v", i, tt.rtt, got)
		}
	}
}

func BenchmarkBeat(b *testing.B) {
	rdb, _ := redistest.New(b)
	s := busyState()
	payload := []byte(`{"class":"SlowJob","args":["` + strings.Repeat("x", 200) + `"]}`)
	for i := range 100 {
		s.Work = append(s.Work, Work{TID: strconv.Itoa(i), Queue: "default", Payload: payload, RunAt: time.Unix(math.MaxInt32, 0)})
	}
	b.ReportAllocs()
	var beater Beater
	for b.Loop() {
		harness.Must(beater.Beat(context.Background(), rdb, s))(b)
	}
}
