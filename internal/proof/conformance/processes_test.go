package conformance

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

func TestCheck21RubyShowsTheGoProcess(t *testing.T) {
	s := newSite(t)
	p := s.process(workerSpec{
		Tag: "mytag", Labels: []string{"reliable", "é"},
		Capsules: []capsuleSpec{
			{Concurrency: 3, Weights: map[string]int{"crit": 3, "default": 1}},
			{Name: "single", Concurrency: 1, Queues: []string{"serial", "serial2"}},
		},
	})
	pid := p.PID()
	host, err := os.Hostname()
	s.must(err)

	var seen []struct {
		Hostname, Tag, Identity, Version, Quiet string
		PID, Concurrency, Busy, RSS, RTT        int
		Started, Beat                           float64
		Queues, Labels                          []string
		Weights                                 json.RawMessage
		Embedded                                *bool
	}
	s.ruby(`Sidekiq::ProcessSet.new.map { |p|
  {hostname: p["hostname"], tag: p.tag, identity: p.identity, version: p["version"], quiet: p["quiet"], pid: p["pid"],
   concurrency: p["concurrency"], busy: p["busy"], rss: p["rss"], rtt: p["rtt_us"], started: p["started_at"],
   beat: p["beat"], queues: p.queues, labels: p.labels, weights: p["weights"], embedded: p["embedded"]} }`, &seen)
	if len(seen) != 1 {
		t.Fatalf("Ruby's ProcessSet has %d processes", len(seen))
	}
	g, now := seen[0], float64(time.Now().UnixMicro())/1e6
	if g.Hostname != host || g.PID != pid || g.Identity != p.identity || g.Tag != "mytag" || g.Quiet != "false" ||
		g.Version != actors.Version || g.Concurrency != 4 || g.Busy != 0 || g.Embedded == nil || *g.Embedded {
		t.Errorf("Ruby's ProcessSet shows %+v", g)
	}
	if !slices.Equal(g.Queues, []string{"crit", "default", "serial", "serial2"}) || !slices.Equal(g.Labels, []string{"reliable", "é"}) ||
		string(g.Weights) != `[{"crit":3,"default":1},{"serial":0,"serial2":0}]` {
		t.Errorf("queues %v, labels %v, weights %s", g.Queues, g.Labels, g.Weights)
	}
	if g.Started > now || g.Started < now-60 || g.Beat > now || g.Beat < now-60 || g.RTT <= 0 || g.RTT > 10_000_000 {
		t.Errorf("started %f, beat %f, now %f, rtt %d µs", g.Started, g.Beat, now, g.RTT)
	}
	if g.RSS < 5_000 || g.RSS > 1_000_000 { // KB
		t.Errorf("rss %d KB", g.RSS)
	}
}

// The fields of a process that 6, 7 and 8 were seen to write are all there, with
// the same values for the same configuration.
func TestCheck21TheProcessHasEveryFieldOf67And8(t *testing.T) {
	s := newSite(t)
	p := s.process(workerSpec{Tag: "mytag", Capsules: []capsuleSpec{
		{Concurrency: 3, Weights: map[string]int{"crit": 3, "default": 1}},
		{Name: "single", Concurrency: 1, Queues: []string{"serial", "serial2"}},
	}})
	var ours map[string]any
	decode(t, s.hash(p, "info"), &ours)
	own := regexp.MustCompile(`^(hostname|started_at|pid|identity|version)$`) // of each process
	for _, name := range []string{"v6_info.json", "v7_info.json", "v8_info.json"} {
		var theirs map[string]any
		decode(t, golden(t, name), &theirs)
		for key, want := range theirs {
			got := ours[key]
			switch {
			case name == "v6_info.json" && (key == "concurrency" || key == "queues"): // another configuration
				want = got
			case own.MatchString(key):
				if reflect.TypeOf(got) != reflect.TypeOf(want) {
					t.Errorf("%s: %s is %v, want something like %v", name, key, got, want)
				}
				continue
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %s is %v, want %v", name, key, got, want)
			}
		}
	}
	if id, _ := ours["identity"].(string); !regexp.MustCompile(`^[^:]+:\d+:[0-9a-f]{12}$`).MatchString(id) {
		t.Errorf("identity %q", id)
	}
	if started := field(t, s.hash(p, "info"), "started_at"); form(started) != "seconds with a fraction" {
		t.Errorf("started_at %s", started)
	}
	for line := range strings.Lines(golden(t, "v8_process.txt")) {
		key, want, _ := strings.Cut(strings.TrimSpace(line), " ")
		got := s.hash(p, key)
		_, err := strconv.Atoi(got)
		if integer := regexp.MustCompile(`^\d+$`); integer.MatchString(want) != (err == nil) || form(want) != want && form(got) != form(want) {
			t.Errorf("field %s is %q, want something like %s", key, got, want)
		}
	}
	harness.Equal(t, "hash field concurrency is", s.hash(p, "concurrency"), "4")
}

func TestCheck22RubyShowsARunningGoJob(t *testing.T) {
	s := newSite(t)
	want := golden(t, "v7_work.json")
	raw, _ := payload(t, want).String("payload")
	s.put("default", raw)
	spec := on(2, "default")
	spec.WorkersKey = true
	kit := s.work(spec)
	jid := payload(t, raw).JID()
	s.awaitRuns(1, jid)
	key := kit.Identity() + ":work"
	testkit.Await(t, "the job is in "+key, func() bool { return s.rdb.HLen(t.Context(), key).Val() == 1 })
	if ttl := s.rdb.TTL(t.Context(), key).Val(); ttl <= 0 || ttl > time.Minute {
		t.Errorf("TTL %s", ttl)
	}
	for tid, got := range s.rdb.HGetAll(t.Context(), key).Val() {
		if tid == "" || shape(t, got, "run_at") != shape(t, want, "run_at") {
			t.Errorf("%s\n got %s\nwant %s", tid, got, want)
		}
	}

	// Up to 6.4.1 the same hash has the name :workers.
	var works []struct {
		Identity, Queue, Class, JID string
		Args                        []any
		RunAt                       int64 `json:"run_at"`
	}
	s.ruby(`Sidekiq::WorkSet.new.map { |id, _, w| j = w["payload"]
  {identity: id, queue: w["queue"], class: j["class"], jid: j["jid"], args: j["args"], run_at: w["run_at"]} }`, &works)
	if len(works) != 1 || works[0].Identity != kit.Identity() || works[0].Queue != "default" || works[0].Class != "SlowJob" ||
		works[0].JID != jid || !reflect.DeepEqual(works[0].Args, []any{13.0}) || time.Since(time.Unix(works[0].RunAt, 0)) > time.Minute {
		t.Errorf("Ruby's WorkSet shows %+v", works)
	}
	if st := s.stats(); st.Busy != 1 || st.Processes != 1 {
		t.Errorf("Ruby's Stats: %+v", st)
	}
	s.open(jid)
	testkit.Await(t, "an idle process has no work", func() bool { return s.rdb.Exists(t.Context(), key, key+"ers").Val() == 0 })
}

func TestCheck22TheOldKeyHasTheSameContent(t *testing.T) {
	s := newSite(t)
	want := golden(t, "v7_work.json")
	raw, _ := payload(t, want).String("payload")
	at, _ := payload(t, want).Time("run_at")
	state := beat.State{
		Info: beat.Info{Identity: "vm:1:0123456789ab", StartedAt: at}, Now: time.Now(), WorkersKey: true,
		Work: []beat.Work{{TID: "glk", Queue: "default", Payload: []byte(raw), RunAt: at}},
	}
	_, err := new(beat.Beater).Beat(t.Context(), s.rdb, state)
	s.must(err)
	for _, key := range []string{":work", ":workers"} {
		if got := s.rdb.HGet(t.Context(), "vm:1:0123456789ab"+key, "glk").Val(); got != want {
			t.Errorf("%s\n got %s\nwant %s", key, got, want)
		}
	}
	var class string
	s.ruby(`Sidekiq::WorkSet.new.map { |_, _, w| w["payload"]["class"] }.first`, &class)
	harness.Equal(t, "Ruby's WorkSet shows class", class, "SlowJob")
}
