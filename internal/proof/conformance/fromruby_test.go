package conformance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// odd are argument lists that a careless peer would change, as Ruby code.
var odd = []string{
	`[]`,
	`[1, "two", {"three" => 3.5}, nil]`,
	`[123456789012345678901234567890, -98765432109876543210987654321]`,
	`[1.0, 0.1, 12345.678, -0.0, 100.0]`,
	`[nil, true, false, [], {}, [[[nil]]]]`,
	`[{"b" => {"y" => [1, {"z" => []}], "a" => nil}, "a" => 1}]`,
	`["\u{1F600}\u{1F468}\u200D\u{1F469}", "h\u00e9\u4e16\u754c", "<&>\u2028\u2029/"]`,
	`["\u0000", "a\u0000b\u001f\t\n\r\b\f\\\"", "\u007f"]`,
}

func TestCheck01EveryVersionsJobRunsOnceInGoWithEqualArgs(t *testing.T) {
	s := newSite(t)
	want := map[string]string{} // jid -> args as the pusher wrote them
	var pushed []struct{ JID, Args string }
	s.ruby(`[`+strings.Join(odd, ",\n")+`].map { |list|
  {jid: Sidekiq::Client.push("class" => "RecordJob", "args" => list), args: JSON.generate(list)} }`, &pushed)
	for _, p := range pushed {
		want[p.JID] = p.Args
	}
	var raws []string
	for _, name := range []string{"v7_push.json", "v8_push.json", "v7_odd_args.json", "v8_odd_args.json"} {
		raw := golden(t, name)
		raws = append(raws, raw)
		s.put("default", raw)
		want[payload(t, raw).JID()] = field(t, raw, "args")
	}
	s.work(on(5, "default"))
	runs := s.awaitRuns(len(want), "")
	s.awaitEmpty("default")
	runs = s.awaitRuns(len(runs), "") // none has run again by now
	if len(runs) != len(want) {
		t.Errorf("%d runs of %d jobs", len(runs), len(want))
	}
	for _, r := range runs {
		if args, ok := want[r.JID]; !ok || r.Args != args {
			t.Errorf("pushed %s, ran with %s", args, r.Args)
		}
		var list []any
		if err := json.Unmarshal([]byte(r.Args), &list); err != nil {
			t.Errorf("args %s: %v", r.Args, err)
		}
		delete(want, r.JID)
		if i := slices.IndexFunc(raws, func(raw string) bool { return payload(t, raw).JID() == r.JID }); i >= 0 && r.Payload != raws[i] {
			t.Errorf("in the queue %s, in the handler %s", raws[i], r.Payload)
		}
	}
	for jid, args := range want {
		t.Errorf("job %s with %s did not run", jid, args)
	}
}

func TestCheck02ABulkOfRubyRunsInOrderOnOneProcessor(t *testing.T) {
	s := newSite(t)
	var pushed []string
	s.ruby(`Sidekiq::Client.push_bulk("class" => "Record", "args" => (0...2500).map { |i| [i] })`, &pushed)
	s.work(on(1, "default"))
	s.awaitRuns(2500, "")
	s.awaitEmpty("default")
	runs := s.events("run", "")
	if len(runs) != 2500 || len(pushed) != 2500 {
		t.Fatalf("%d pushed, %d runs", len(pushed), len(runs))
	}
	for i, r := range runs {
		if r.JID != pushed[i] || r.Args != fmt.Sprintf("[%d]", i) {
			t.Fatalf("run %d is of %s with %s, want %s", i, r.JID, r.Args, pushed[i])
		}
	}
}

func TestCheck03WhatRubySchedulesIsMovedByTheGoPoller(t *testing.T) {
	s := newSite(t)
	var pushed struct {
		JID, Stored string
		At          float64
	}
	s.ruby(`at = Time.now.to_f + 2
jid = Sidekiq::Client.push("class" => "Record", "queue" => "later", "args" => ["later"], "at" => at)
{jid: jid, at: at, stored: Sidekiq.redis { |r| r.zrange("schedule", 0, -1) }.first}`, &pushed)
	s.work(on(2, "later", "default")) // nobody takes it before it was read
	ruby6 := s.awaitRuns(1, pushed.JID)[0]
	if start := float64(ruby6.At) / 1e6; start < pushed.At || start > pushed.At+5 {
		t.Errorf("started %.3f s after its time", start-pushed.At)
	}
	sameFields(t, pushed.Stored, ruby6.Payload, "enqueued_at")
	enqueued, ok := payload(t, ruby6.Payload).Time("enqueued_at")
	if !ok || scores.Of(enqueued) < pushed.At-1e-3 || form(field(t, ruby6.Payload, "enqueued_at")) != "seconds with a fraction" {
		t.Errorf("enqueued_at is %s, the job was due at %f", field(t, ruby6.Payload, "enqueued_at"), pushed.At)
	}
	if !s.rdb.SIsMember(t.Context(), "queues", "later").Val() {
		t.Error("the queue is not listed in queues")
	}

	// as 8 writes it: no enqueued_at, created_at in milliseconds
	raw := golden(t, "v8_schedule.json")
	s.must(s.rdb.Do(t.Context(), "zadd", "schedule", "1.5", raw).Err())
	run := s.awaitRuns(1, payload(t, raw).JID())[0]
	sameFields(t, raw, run.Payload)
	if form(field(t, run.Payload, "enqueued_at")) != "seconds with a fraction" {
		t.Errorf("8's job got enqueued_at %s", field(t, run.Payload, "enqueued_at"))
	}
}

func TestCheck04WithoutRetriesTheFirstFailureIsDeath(t *testing.T) {
	s := newSite(t)
	var jid string
	s.ruby(`Sidekiq::Client.push("class" => "Fail", "args" => [], "retry" => 0)`, &jid)
	s.work(on(2, "default"))
	raw, score := s.awaitIn("dead", jid)
	e := s.entry("DeadSet", jid)
	if e.Item["retry_count"] != 0.0 || e.Item["error_class"] != "Conformance::Failure" || e.Item["error_message"] != "on purpose" {
		t.Errorf("Ruby's DeadSet shows %+v", e.Item)
	}
	if e.Item["retried_at"] != nil || e.Item["failed_at"] != score && form(field(t, raw, "failed_at")) != "seconds with a fraction" {
		t.Errorf("failed_at %v, retried_at %v, score %f", e.Item["failed_at"], e.Item["retried_at"], score)
	}
	if len(s.members("retry")) != 0 {
		t.Errorf("retry has %v", s.members("retry"))
	}
}

// The same death as 8 wrote it, byte for byte but for the time.
func TestCheck04DeathAs8WritesIt(t *testing.T) {
	s := newSite(t)
	want := golden(t, "v8_dead.json")
	s.put("default", unfailed(t, want))
	spec := on(2, "default")
	spec.Millis = true
	s.work(spec)
	got, _ := s.awaitIn("dead", payload(t, want).JID())
	if shape(t, got, "failed_at") != shape(t, want, "failed_at") {
		t.Errorf("in dead\n got %s\nwant %s", got, want)
	}
}

func TestCheck05ANeverRetriedJobLeavesNothingButDeathHandlersRan(t *testing.T) {
	s := newSite(t)
	var jid string
	s.ruby(`Sidekiq::Client.push("class" => "Fail", "args" => [], "retry" => false)`, &jid)
	s.work(on(2, "default"))
	testkit.Await(t, "the death handler ran", func() bool { return len(s.events("death", jid)) == 1 })
	s.awaitEmpty("default")
	if left := append(s.members("retry"), s.members("dead")...); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	harness.Equal(t, "runs", len(s.events("run", jid)), 1)
}

func TestCheck06ThreeRetriesAreFourRunsAndDeath(t *testing.T) {
	s := newSite(t)
	var jid string
	s.ruby(`Sidekiq::Client.push("class" => "Fail", "args" => [], "retry" => 3)`, &jid)
	s.work(on(2, "default"))
	for n := 1; n <= 3; n++ {
		raw, _ := s.awaitIn("retry", jid)
		if got := len(s.events("run", jid)); got != n {
			t.Fatalf("%d runs and %d failures", got, n)
		}
		s.due("retry", raw)
		s.awaitRuns(n+1, jid)
	}
	raw, _ := s.awaitIn("dead", jid)
	s.awaitEmpty("default")
	if n := len(s.events("run", jid)); n != 4 || len(s.members("retry")) != 0 {
		t.Errorf("%d runs, retry has %v", n, s.members("retry"))
	}
	if field(t, raw, "retry_count") != "3" {
		t.Errorf("in dead: %s", raw)
	}
	testkit.Await(t, "the death handler ran", func() bool { return len(s.events("death", jid)) == 1 })
}

// Ruby's push says true where nobody says a number: then the class's counts, here 1.
func TestCheck06TrueIsTheNumberOfTheClass(t *testing.T) {
	s := newSite(t)
	var jid string
	s.ruby(`Sidekiq::Client.push("class" => "OneRetry", "args" => [])`, &jid)
	if raw := s.queue("default")[0]; field(t, raw, "retry") != "true" {
		t.Fatalf("pushed %s", raw)
	}
	s.work(on(2, "default"))
	raw, _ := s.awaitIn("retry", jid)
	s.due("retry", raw)
	s.awaitRuns(2, jid)
	s.awaitEmpty("default")
	testkit.Await(t, "it is stored", func() bool { return len(s.members("dead"))+len(s.members("retry")) == 1 })
	raw, _ = s.find("dead", jid)
	if raw == "" || field(t, raw, "retry_count") != "1" || field(t, raw, "retry") != "true" {
		t.Errorf("dead has %q, retry %q", raw, s.members("retry"))
	}
	harness.Equal(t, "runs", len(s.events("run", jid)), 2)
	if e := s.entry("DeadSet", jid); e.Class != "OneRetry" {
		t.Errorf("Ruby's DeadSet: %+v", e)
	}
}

func TestCheck07RetriesGoToTheRetryQueue(t *testing.T) {
	s := newSite(t)
	var jid string
	s.ruby(`Sidekiq::Client.push("class" => "FailOnce", "args" => [], "retry_queue" => "low")`, &jid)
	s.work(on(2, "default", "low"))
	raw, _ := s.awaitIn("retry", jid)
	if e := s.entry("RetrySet", jid); e.Queue != "low" {
		t.Errorf("Ruby shows the retry in queue %q", e.Queue)
	}
	s.due("retry", raw)
	if runs := s.awaitRuns(2, jid); runs[0].Queue != "default" || runs[1].Queue != "low" {
		t.Errorf("ran from %s, then from %s", runs[0].Queue, runs[1].Queue)
	}

	// the same retry as 7 wrote it, byte for byte but for the time
	want := golden(t, "v7_retry.json")
	s.put("default", unfailed(t, strings.Replace(want, `"queue":"low"`, `"queue":"default"`, 1)))
	got, _ := s.awaitIn("retry", payload(t, want).JID())
	if shape(t, got, "failed_at") != shape(t, want, "failed_at") {
		t.Errorf("in retry\n got %s\nwant %s", got, want)
	}
}
