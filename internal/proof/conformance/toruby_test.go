package conformance

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/scores"
)

func TestCheck14WhatGoPushesRubyRunsWithEqualArgs(t *testing.T) {
	s := withSharedSidekiq(t)
	want := map[string]string{} // jid -> args as Ruby writes them
	for _, args := range []string{
		`[]`, `[1,"two",{"three":3.5},null]`, `[123456789012345678901234567890]`, `[1.0,0.25,12345.678,100.0]`,
		`["😀👨‍👩","<&>` + "\u2028" + `/","\u0000\u001f\t\n\"\\"]`, `[{"b":1,"a":[true,false,{}]}]`,
	} {
		jid := s.push("Record", args, inQueue("check14"))
		if !jidForm.MatchString(jid) {
			t.Errorf("jid %q", jid)
		}
		want[jid] = args
	}
	for _, r := range s.rubyRuns(len(want), ofJID(slices.Collect(maps.Keys(want))...)) {
		if args, ok := want[r.JID]; !ok || r.Args != args || r.Class != "Record" {
			t.Errorf("pushed %s, Ruby ran %s with %s", args, r.Class, r.Args)
		}
		delete(want, r.JID)
	}
	for jid, args := range want {
		t.Errorf("job %s with %s did not run in Ruby", jid, args)
	}
}

// What the daemon pushes has the bytes that 7 and 8 were seen to push.
func TestCheck14APushHasTheBytesOf7And8(t *testing.T) {
	s := newSite(t)
	for _, c := range []struct {
		file   string
		client *client.Client
	}{
		{"v7_push.json", s.client},
		{"v8_push.json", client.New(s.rdb, client.WithTimestamps(troupe.TimestampsMillis))},
	} {
		want := payload(t, golden(t, c.file))
		_, err := c.client.PushJSON(t.Context(), want.Class(), want.Args(), client.Queue(want.Queue()), client.JID(want.JID()))
		s.must(err)
		got := s.queue(want.Queue())[0]
		if w := string(want.Bytes()); shape(t, got, "created_at", "enqueued_at") != shape(t, w, "created_at", "enqueued_at") {
			t.Errorf("%s\n got %s\nwant %s", c.file, got, w)
		}
	}
	want := payload(t, golden(t, "v8_schedule.json"))
	c := client.New(s.rdb, client.WithTimestamps(troupe.TimestampsMillis))
	_, err := c.PushJSON(t.Context(), want.Class(), want.Args(), client.JID(want.JID()), client.In(time.Hour))
	s.must(err)
	if got := s.members("schedule")[0]; shape(t, got, "created_at") != shape(t, string(want.Bytes()), "created_at") {
		t.Errorf("scheduled\n got %s\nwant %s", got, want.Bytes())
	}
}

func TestCheck15WhatGoSchedulesRubysPollerEnqueues(t *testing.T) {
	s := withSharedSidekiq(t)
	at := time.Now().Add(5 * time.Second) // it has to be seen in schedule first
	jid := s.push("Record", `["late"]`, inQueue("check15"), client.At(at))
	stored, score := s.find("schedule", jid)
	run := s.rubyRuns(1, ofJID(jid))[0]
	if early := time.Until(at); early > 0 {
		t.Errorf("ran %s before its time", early)
	}
	for _, key := range []string{"at", "enqueued_at"} {
		if text := field(t, stored, key); text != "" {
			t.Errorf("in schedule %s is %s", key, text)
		}
	}
	if field(t, run.Job, "at") != "" || field(t, run.Job, "enqueued_at") == "" || score != scores.Of(at) {
		t.Errorf("score %f for %v, Ruby ran %s", score, at, run.Job)
	}
	sameFields(t, stored, run.Job)
}

func TestCheck16ABulkOfGoRunsInOrderOnOneRubyThread(t *testing.T) {
	s := withSharedSidekiq(t)
	jids, err := s.client.PushBulkClass(t.Context(), "Record", numbered(1000), inQueue("check16"))
	s.must(err)
	for i, r := range s.rubyRuns(len(jids), ofJID(jids...)) {
		if r.JID != jids[i] || r.Args != fmt.Sprintf("[%d]", i) {
			t.Fatalf("run %d is of %s with %s, want %s", i, r.JID, r.Args, jids[i])
		}
	}
}

func TestCheck17AFailureInRubyAndASuccessInGoAreTwoRunsInTheStats(t *testing.T) {
	s := newSite(t)
	sidekiq := s.sidekiq("-c", "1")
	jid := s.push("FailInRuby", `[1]`)
	raw, _ := s.awaitIn("retry", jid)
	sidekiq.Stop(soon)
	kit := s.work(on(2, "default"))
	s.due("retry", raw)
	run := s.awaitRuns(1, jid)[0]
	s.awaitEmpty("default")
	kit.Stop()
	if field(t, run.Payload, "retry_count") != "0" || field(t, run.Payload, "error_class") != `"ArgumentError"` {
		t.Errorf("Go ran %s", run.Payload)
	}
	if in, out := len(s.rubyRuns(1, nil)), len(s.events("run", "")); in != 1 || out != 1 {
		t.Errorf("%d runs in Ruby, %d in Go", in, out)
	}
	if st := s.stats(); st.Processed != 2 || st.Failed != 1 || st.Retries+st.Dead+st.Enqueued != 0 {
		t.Errorf("Ruby's Stats: %+v", st)
	}
}

func TestCheck18AnInterruptedGoJobIsTheNextOneThatRubyFetches(t *testing.T) {
	s := newSite(t)
	spec := on(1, "default")
	spec.Timeout = time.Second
	p := s.process(spec)
	jid := s.push("Gate", `["é<&>",1.0]`, with("custom", map[string]any{"é": 1}))
	raw := s.awaitRuns(1, jid)[0].Payload
	later := s.push("Record", `[2]`)
	p.Stop(soon)
	if waiting := s.queue("default"); len(waiting) != 2 || waiting[0] != raw {
		t.Fatalf("in the queue %q, want first %s", waiting, raw)
	}
	s.sidekiq("-c", "1")
	runs := s.rubyRuns(2, nil)
	if runs[0].JID != jid || runs[1].JID != later || runs[0].Job != raw {
		t.Errorf("Ruby ran %s\nthen %s\nwant first %s", runs[0].Job, runs[1].Job, raw)
	}
}

func TestCheck19EachSidesPollerRetriesTheOthersFailures(t *testing.T) {
	s := newSite(t)
	kit := s.work(on(2, "default"))
	ours := s.push("FailInGo", `["go"]`)
	raw, _ := s.awaitIn("retry", ours)
	kit.Stop() // Go is down

	sidekiq := s.sidekiq("-c", "1")
	s.due("retry", raw)
	run := s.rubyRuns(1, ofJID(ours))[0]
	sameFields(t, raw, run.Job, "enqueued_at")

	theirs := s.push("FailInRuby", `["ruby"]`)
	raw, _ = s.awaitIn("retry", theirs)
	sidekiq.Stop(soon) // and now Ruby
	s.work(on(2, "default"))
	s.due("retry", raw)
	again := s.awaitRuns(1, theirs)[0]
	sameFields(t, raw, again.Payload, "enqueued_at")
	s.awaitEmpty("default")
	if st := s.stats(); st.Retries != 0 {
		t.Errorf("Ruby's Stats: %+v", st)
	}
}

func TestCheck20LatencyOfAGoQueueIsRight(t *testing.T) {
	s := newSite(t)
	// since is how old a job can be that was pushed after an instant; whole
	// milliseconds may round up.
	since := func(pushed time.Time) float64 { return time.Since(pushed).Seconds() + 0.001 }
	pushed := time.Now()
	s.push("Record", `[]`)
	for _, c := range []struct{ version, script string }{
		{"6.4.1", `Sidekiq::Queue.new.latency`},
		{"6.4.1, Stats", `Sidekiq::Stats.new.default_queue_latency`},
		{"8 on floats", `Time.now.to_f - ` + seconds8 + `.(Sidekiq::Queue.new.first["enqueued_at"])`},
	} {
		var latency float64
		s.ruby(c.script, &latency)
		if limit := since(pushed); latency < 0 || latency > limit {
			t.Errorf("%s: latency %f s, it was pushed %f s ago", c.version, latency, limit)
		}
	}
	pushed = time.Now()
	_, err := client.New(s.rdb, client.WithTimestamps(troupe.TimestampsMillis)).
		PushClass(t.Context(), "Record", nil, inQueue("ms"))
	s.must(err)
	var latency float64
	s.ruby(`Time.now.to_f - `+seconds8+`.(Sidekiq::Queue.new("ms").first["enqueued_at"])`, &latency)
	if limit := since(pushed); latency < -0.001 || latency > limit {
		t.Errorf("8 on milliseconds: latency %f s, it was pushed %f s ago", latency, limit)
	}
	if raw := s.queue("ms")[0]; form(field(t, raw, "enqueued_at")) != "milliseconds" || form(field(t, raw, "created_at")) != "milliseconds" {
		t.Errorf("in ms mode: %s", raw)
	}
}
