package conformance

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
)

// Bytes that do not parse, in Go and in Ruby; and JSON that is no object.
var (
	noJSON = []string{
		`not json`, ``, `{"class":`, "\ufeff" + `{"class":"Record","args":[]}`, `{"class":"Record","args":[NaN]}`,
		`{"class":"Record","args":[]} x`, strings.Repeat("[", 101) + strings.Repeat("]", 101),
	}
	noObject = []string{`[1]`, `"<b>x é"`, `5`, ` -0 `, `null`, `true`, "false\n", `1e999`, `[ {"class":"Record","args":[]} ]`, "[\"\xff\"]"}
)

// shownText is how Ruby's API and pages show JSON that is no object.
func shownText(raw string) string { return strings.ToValidUTF8(raw, "\ufffd") }

// notJobs are the jobs of class Troupe::NotAJob in dead, by their text.
func (s *site) notJobs() map[string]*troupe.Payload {
	s.t.Helper()
	found := map[string]*troupe.Payload{}
	for _, raw := range s.members("dead") {
		p, err := troupe.ParsePayload([]byte(raw))
		if err != nil || p.Class() != "Troupe::NotAJob" {
			continue
		}
		var args []string
		if err := json.Unmarshal(p.Args(), &args); err != nil || len(args) != 1 || found[args[0]] != nil {
			s.t.Errorf("dead: %s", raw)
			continue
		}
		found[args[0]] = p
	}
	return found
}

func (s *site) wantNotJobs() map[string]*troupe.Payload {
	s.t.Helper()
	found := s.notJobs()
	want := make([]string, len(noObject))
	for i, raw := range noObject {
		want[i] = shownText(raw)
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
		s.t.Fatalf("kept as jobs: %q, want %q", got, want)
	}
	return found
}

func TestCheck10WhatIsNoJobIsDeadAndNotCounted(t *testing.T) {
	s := newSite(t)
	s.put("low", append(slices.Clone(noJSON), noObject...)...)
	s.push("Record", `[1]`)
	kit := s.work(on(2, "default", "low"))
	s.awaitSize("dead", len(noJSON)+len(noObject))
	s.awaitRuns(1, "")
	s.awaitEmpty("low")
	kit.Stop()
	if st := s.stats(); st.Processed != 1 || st.Failed != 0 || st.Dead != len(noJSON)+len(noObject) {
		t.Errorf("Ruby's Stats: %+v, want one execution and no failure", st)
	}
	if deaths := s.events("death", ""); len(deaths) != 0 {
		t.Errorf("death handlers ran: %+v", deaths)
	}
	dead := s.members("dead")
	for _, raw := range noJSON {
		if !slices.Contains(dead, raw) {
			t.Errorf("%q is not in dead", raw)
		}
	}
	for text, p := range s.wantNotJobs() {
		message, _ := p.String("error_message")
		class, _ := p.String("error_class")
		if p.Queue() != "low" || field(t, string(p.Bytes()), "retry") != "0" || len(p.JID()) != 24 ||
			!strings.Contains(message, "not an object but ") || class != "troupe.PayloadError" ||
			form(field(t, string(p.Bytes()), "failed_at")) != "seconds with a fraction" {
			t.Errorf("%q is kept as %s", text, p.Bytes())
		}
	}

	// Ruby shows all of them, and so does troupe
	type shown struct {
		Class, JID, Queue, Error *string
		Args                     []string
	}
	var theirs []shown
	s.ruby(`Sidekiq::DeadSet.new.map { |e| {class: e.display_class, jid: e.jid, queue: e.queue, error: e["error_message"], args: e.display_args} }`, &theirs)
	var ours []shown
	orNil := func(text string) *string {
		if text == "" {
			return nil
		}
		return &text
	}
	for e, err := range inspect.New(s.rdb).DeadSet.Each(t.Context()) {
		s.must(err)
		one := shown{Class: orNil(e.Summary().Class), JID: orNil(e.JID), Queue: orNil(e.Queue), Error: orNil(e.Summary().ErrorMessage)}
		decode(t, string(e.Summary().Args), &one.Args)
		ours = append(ours, one)
	}
	if len(theirs) != len(noJSON)+len(noObject) || asJSON(theirs) != asJSON(ours) {
		t.Errorf("Ruby's DeadSet shows %s\nGo's %s", asJSON(theirs), asJSON(ours))
	}
}

func TestCheck10WhatIsNoJobHasItsPageAndCanBeRetried(t *testing.T) {
	s := newSite(t)
	s.put("default", append(slices.Clone(noJSON), noObject...)...)
	kit := s.work(on(2, "default"))
	s.awaitSize("dead", len(noJSON)+len(noObject))
	kit.Stop()
	b := s.browser()
	first := s.wantNotJobs()
	list := b.get("/morgue")
	harness.Equal(t, "the Dead page shows", strings.Count(list, "Troupe::NotAJob"), len(noObject))
	for text, p := range first {
		if page := b.get("/morgue/" + key(s, "dead", p.JID())); !strings.Contains(page, "Troupe::NotAJob") || !strings.Contains(page, p.JID()) {
			t.Errorf("the page of %q does not show it", text)
		}
	}

	// retried, one with its button and the others by the API, they are dead again
	// with their texts, and not a text in a text
	for _, raw := range noJSON { // Ruby's retry loses these
		s.must(s.rdb.ZRem(t.Context(), "dead", raw).Err())
	}
	b.press("/morgue/"+key(s, "dead", first["[1]"].JID()), "retry", first["[1]"].JID())
	s.ruby(`Sidekiq::DeadSet.new.each(&:retry)`, nil)
	if n := len(s.queue("default")); n != len(noObject) || len(s.members("dead")) != 0 {
		t.Fatalf("%d in the queue, %d in dead", n, len(s.members("dead")))
	}
	kit = s.work(on(2, "default"))
	s.awaitSize("dead", len(noObject))
	s.awaitEmpty("default")
	kit.Stop()
	for text, p := range s.wantNotJobs() {
		sameFields(t, string(first[text].Bytes()), string(p.Bytes()), "enqueued_at")
	}
	if st := s.stats(); st.Processed != 0 || st.Failed != 0 || st.Retries != 0 {
		t.Errorf("Ruby's Stats: %+v", st)
	}
	b.get("/morgue")

	// what a Ruby process takes ends in dead with its text as well
	var text string
	s.ruby(`e = Sidekiq::DeadSet.new.first
e.retry
Sidekiq::Queue.new.first.args[0]`, &text)
	s.sidekiq("-c", "1")
	s.awaitSize("dead", len(noObject))
	if s.wantNotJobs()[text] == nil {
		t.Errorf("%q is lost", text)
	}
}

func TestCheck40JSONThatIsNoObjectIsKeptFromTheSets(t *testing.T) {
	s := newSite(t)
	for i, raw := range noObject {
		set := []string{"schedule", "retry"}[i%2]
		s.must(s.rdb.ZAdd(t.Context(), set, redis.Z{Score: float64(time.Now().Unix() - 100 + int64(i)), Member: raw}).Err())
	}
	s.work(on(2, "default"))
	s.awaitSize("dead", len(noObject))
	s.wantNotJobs()
	var n int
	s.ruby(`Sidekiq::DeadSet.new.map(&:display_class).count("Troupe::NotAJob")`, &n)
	if n != len(noObject) || len(s.members("schedule")) != 0 || len(s.members("retry")) != 0 {
		t.Errorf("Ruby shows %d; left in schedule %q, in retry %q", n, s.members("schedule"), s.members("retry"))
	}
}
