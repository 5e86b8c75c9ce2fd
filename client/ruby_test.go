package client_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// ruby runs a script with the real Sidekiq on the database at url and returns
// what it prints, a line each.
func ruby(t *testing.T, url, script string) []string {
	t.Helper()
	return strings.Split(strings.TrimSuffix(redistest.Ruby(t, url, script), "\n"), "\n")
}

var oddArgs = []any{
	"<a href='x'>&amp;</a>", "line\u2028para\u2029", "😀 é ü \x7f", "\"\\/\b\f\n\r\t\x00\x1f", json.Number("123456789012345678901234567890"),
	1, -5, 100.0, 1.5, 0.1, 123456.789, nil, true, []any{map[string]any{"b": 1, "a": []any{}}}, map[string]any{},
}

func TestRubyReadsWhatGoPushed(t *testing.T) {
	rdb, url := redistest.New(t)
	c := client.New(rdb)
	ctx := t.Context()
	jid := harness.Must(c.PushClass(ctx, "A::B", oddArgs, client.Queue("odd"), client.Tags("é", "x")))(t)
	at := time.Now().Add(time.Hour)
	later := harness.Must(c.PushClass(ctx, "Later", oddArgs, client.At(at)))(t)
	seq := func(yield func([]any) bool) {
		for i := range 1000 {
			if !yield([]any{i}) {
				return
			}
		}
	}
	harness.Must(c.PushBulkClass(ctx, "Many", seq, client.Queue("many")))(t)
	lines := ruby(t, url, `
Sidekiq::Queue.new("odd").each { |j| puts JSON.generate(JSON.parse(j.value)); puts j.klass, j.jid, j.tags.inspect, j.latency.between?(0, 60), j.args.size }
Sidekiq::ScheduledSet.new.each { |j| puts JSON.generate(JSON.parse(j.value)); puts j.jid, j.score.to_s, j.at.to_i; j.reschedule(j.score + 100) }
puts Sidekiq::ScheduledSet.new.size
puts Sidekiq::Queue.all.map(&:name).sort.join(",")
puts Sidekiq.redis { |c| (0...1000).map { JSON.parse(c.rpop("queue:many"))["args"][0] } == (0...1000).to_a }
`)
	raw := list(t, rdb, "odd")[0]
	scheduled, _ := rdb.ZRangeWithScores(ctx, "schedule", 0, -1).Result()
	if len(scheduled) != 1 {
		t.Fatalf("after Ruby's reschedule schedule holds %d members: %v", len(scheduled), scheduled)
	}
	want := []string{raw, "A::B", jid, `["é", "x"]`, "true", "15", scheduled[0].Member.(string), later}
	for i, w := range want {
		if lines[i] != w {
			t.Errorf("line %d\n got %s\nwant %s", i, lines[i], w)
		}
	}
	rest := strings.Join(lines[9:], " ")
	if rest != strings.Join([]string{lines[9], "1", "many,odd", "true"}, " ") {
		t.Errorf("got %s", rest)
	}
	if diff := scheduled[0].Score - scores.Of(at); diff < 99.999 || diff > 100.001 {
		t.Errorf("rescheduled by %v s, want 100", diff)
	}
}

func TestRubysPollerEnqueuesWhatGoScheduled(t *testing.T) {
	rdb, url := redistest.New(t)
	c := client.New(rdb)
	p := parse(t, `{"class":"Due","args":["é"],"queue":"due","at":5}`)
	jid := harness.Must(c.PushPayload(t.Context(), p))(t)
	ruby(t, url, `require "sidekiq/scheduled"; Sidekiq::Scheduled::Enq.new.enqueue_jobs`)
	got := parse(t, only(t, rdb, "due"))
	if _, at := got.Get("at"); at || got.JID() != jid || string(got.Args()) != `["é"]` {
		t.Errorf("got %s", got.Bytes())
	}
	if _, ok := got.Time("enqueued_at"); !ok || rdb.ZCard(t.Context(), "schedule").Val() != 0 {
		t.Errorf("got %s", got.Bytes())
	}
}

func TestGoReadsWhatRubyPushed(t *testing.T) {
	rdb, url := redistest.New(t)
	lines := ruby(t, url, `
args = ["<&>\u2028", "\u{1F600}\u0000", 123456789012345678901234567890, 1.0, 1e-7, nil, {"b" => [1], "a" => {}}]
puts Sidekiq::Client.push("class" => "R", "queue" => "r", "args" => args, "tags" => ["t"])
puts Sidekiq::Client.push("class" => "S", "args" => args, "at" => Time.now.to_f + 50)
Sidekiq::Client.push_bulk("class" => "Many", "queue" => "m", "args" => (0...2500).map { |i| [i] })
puts JSON.generate(args)
`)
	p := parse(t, only(t, rdb, "r"))
	if p.JID() != lines[0] || string(p.Args()) != lines[2] || p.Class() != "R" {
		t.Errorf("got %s", p.Bytes())
	}
	var args []any
	if err := json.Unmarshal(p.Args(), &args); err != nil || args[1] != "😀\x00" {
		t.Errorf("args %v, %v", args, err)
	}
	// what Go pushes on must stay the same text for Ruby
	q, err := client.New(rdb).Prepare(t.Context(), p.Clone(), time.Now())
	if err != nil || string(q.Args()) != lines[2] {
		t.Errorf("prepared %s, %v", q.Bytes(), err)
	}
	members := rdb.ZRange(t.Context(), "schedule", 0, -1).Val()
	if len(members) != 1 || parse(t, members[0]).JID() != lines[1] {
		t.Errorf("schedule %v", members)
	}
	harness.Equal(t, "jobs of Ruby's bulk", len(list(t, rdb, "m")), 2500)
}

// The same push by both sides gives the same bytes, ids and times aside.
func TestBytesAreRubysOwn(t *testing.T) {
	rdb, url := redistest.New(t)
	c := client.New(rdb)
	for _, item := range []string{
		`{"class":"X","args":[1],"queue":"a","retry":3,"jid":"j","created_at":1.5,"custom":"é"}`,
		`{"args":[],"class":"X","jid":"j","created_at":1.5,"retry":null,"tags":[],"queue":"a"}`,
		`{"jid":"j","args":[{"b":1,"a":"` + "\u2028" + `"}],"class":"X","created_at":1.5,"queue":"a"}`,
		`{"jid":"j","args":[],"class":"X","created_at":1.5,"queue":7,"enqueued_at":3}`,
	} {
		rdb.FlushDB(t.Context())
		p := parse(t, item)
		harness.Must(c.PushPayload(t.Context(), p))(t)
		queue := p.Queue()
		if queue == "" {
			queue = "7"
		}
		mine := strip(t, rdb, queue)
		rdb.FlushDB(t.Context())
		ruby(t, url, `Sidekiq::Client.push(JSON.parse('`+item+`'))`)
		if theirs := strip(t, rdb, queue); mine != theirs {
			t.Errorf("Go   %s\nRuby %s", mine, theirs)
		}
	}
}

func strip(t *testing.T, rdb *redis.Client, queue string) string {
	t.Helper()
	p := parse(t, only(t, rdb, queue))
	p.Set("enqueued_at", json.RawMessage("0"))
	return string(p.Bytes())
}
