package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// awkward are argument lists that a careless peer would change, as Ruby code.
var awkward = []string{
	`[]`,
	`[1, "two", {"three" => 3.5}, nil]`,
	`[123456789012345678901234567890, -98765432109876543210987654321]`,
	`[1.0, 0.1, 1e-7, 12345.678, -0.0, 1e22]`,
	`[nil, true, false, [], {}, [[[nil]]]]`,
	`[{"b" => {"y" => [1, {"z" => []}], "a" => nil}, "a" => 1}]`,
	`["\u{1F600}\u{1F468}\u200D\u{1F469}", "h\u00e9\u4e16\u754c", "<&>\u2028\u2029/"]`,
	`["\u0000", "a\u0000b\u001f\t\n\r\b\f\\\"", "\u007f"]`,
}

func TestGoRunsWhatRubyPushesOnceWithEqualArgs(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	rec := newRecords(t)
	startWorker(t, workerSpec{Redis: url, Records: rec.url, Capsules: []capsuleSpec{
		{Concurrency: 5, Queues: []string{"default", "later"}},
		{Name: "one", Concurrency: 1, Queues: []string{"bulk"}},
	}})
	var pushed struct {
		Single []struct{ JID, Args string }
		Bulk   []string
		At     float64
		Late   string // jid
		Stored string // the member of schedule
	}
	ruby(t, url, `
lists = [`+strings.Join(awkward, ",\n")+`]
single = lists.map { |args| {jid: Sidekiq::Client.push("class" => "Record", "args" => args), args: JSON.generate(args)} }
bulk = Sidekiq::Client.push_bulk("class" => "Record", "queue" => "bulk", "args" => (0...2500).map { |i| [i] })
at = Time.now.to_f + 2
late = Sidekiq::Client.push("class" => "Record", "queue" => "later", "args" => ["late"], "at" => at)
stored = Sidekiq.redis { |r| r.zrange("schedule", 0, -1) }.first
show(single: single, bulk: bulk, at: at, late: late, stored: stored)`, &pushed)

	total := len(pushed.Single) + len(pushed.Bulk) + 1
	rec.await(soon, total, "end", "")
	starts := rec.find("start", "")
	if len(starts) != total {
		t.Errorf("%d runs of %d jobs", len(starts), total)
	}
	byJID := map[string][]event{}
	for _, e := range starts {
		byJID[e.JID] = append(byJID[e.JID], e)
	}
	for _, p := range pushed.Single {
		if runs := byJID[p.JID]; len(runs) != 1 || runs[0].Args != p.Args {
			t.Errorf("pushed %s, ran as %v", p.Args, runs)
		}
	}

	var order []string
	for _, e := range starts {
		if e.Queue == "bulk" {
			order = append(order, e.JID)
			if want := fmt.Sprintf("[%d]", len(order)-1); e.Args != want {
				t.Fatalf("run %d of the bulk has args %s", len(order), e.Args)
			}
		}
	}
	if !slices.Equal(order, pushed.Bulk) {
		t.Error("one processor did not run Ruby's bulk in the order of its push")
	}

	late := byJID[pushed.Late]
	if len(late) != 1 {
		t.Fatalf("the scheduled job ran %d times", len(late))
	}
	delay := float64(late[0].At)/1e9 - pushed.At
	t.Logf("started %.1f ms after its time", delay*1000)
	if delay < 0 || delay > lateness.Seconds() {
		t.Errorf("started %.3f s after its time", delay)
	}
	before, after := parsed(t, pushed.Stored), parsed(t, late[0].Payload)
	for _, key := range []string{"created_at", "jid", "args", "retry", "class"} {
		b, _ := before.Get(key)
		a, _ := after.Get(key)
		if string(a) != string(b) {
			t.Errorf("%s was %s, is %s", key, b, a)
		}
	}
	if enqueued, ok := after.Time("enqueued_at"); !ok || scores.Of(enqueued) < pushed.At {
		t.Errorf("enqueued_at %v", enqueued)
	}
	if known := rdb.SMembers(t.Context(), "queues").Val(); !slices.Contains(known, "later") {
		t.Errorf("queues has %v", known)
	}
	clean(t, rdb)
}

func TestGoKeepsWhatRubysJobsCarry(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	rec := newRecords(t)
	startWorker(t, workerSpec{Redis: url, Records: rec.url})
	// fail, retry, run: fields of others survive, number texts included
	raw := `{"retry":5,"queue":"default","custom":{"z":1.10,"a":[1e3]},"class":"FailOnce","args":[123456789012345678901234567890],` +
		`"cattr":{"user":7},"locale":"de","bid":"b-1","jid":"0123456789abcdef01234567","created_at":1795224881.1534805,"enqueued_at":1795224881.153557}`
	if err := rdb.LPush(t.Context(), "queue:default", raw).Err(); err != nil {
		t.Fatal(err)
	}
	testkit.Await(t, "a retry", func() bool { return rdb.ZCard(t.Context(), "retry").Val() == 1 })
	retryNow(t, rdb)
	runs := rec.await(soon, 2, "start", "")
	if runs[0].Payload != raw {
		t.Errorf("first run\n got %s\nwant %s", runs[0].Payload, raw)
	}
	was, is := parsed(t, raw), parsed(t, runs[1].Payload)
	for key := range was.Keys() {
		b, _ := was.Get(key)
		if a, _ := is.Get(key); key != "enqueued_at" && string(a) != string(b) {
			t.Errorf("%s was %s, is %s", key, b, a)
		}
	}
	testkit.Await(t, "settled", func() bool { return len(leftovers(t, rdb)) == 0 })
}

func parsed(t testing.TB, raw string) *troupe.Payload {
	t.Helper()
	p, err := troupe.ParsePayload(json.RawMessage(raw))
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return p
}
