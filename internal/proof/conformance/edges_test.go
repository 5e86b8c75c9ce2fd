package conformance

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

func TestCheck35GosBytesAreThoseThatRubyWouldWrite(t *testing.T) {
	s := newSite(t)
	texts := []any{"<a href='x'>&amp;</a>", "line\u2028para\u2029", "😀👨‍👩 é ü \u007f", "\"\\/\b\f\n\r\t\x00\x1f"}
	values := []any{texts, 100.0, 0.1, 123456.789, 1, -5, int64(1) << 60, nil, true, []any{}, map[string]any{}, map[string]any{"é": []any{map[string]any{"<": 1.0}}}}
	for range 3 {
		_, err := s.client.PushClass(t.Context(), "Record", values, client.Tags("é", "<x>"), with("custom", values))
		s.must(err)
		_, err = s.client.PushClass(t.Context(), "Record", values, client.In(time.Hour), with("custom", values))
		s.must(err)
		_, err = s.client.PushClass(t.Context(), "Boom", values, inQueue("failing"), client.Backtrace(-1))
		s.must(err)
		_, err = s.client.PushClass(t.Context(), "Fail", values, inQueue("failing"), client.Retry(0))
		s.must(err)
	}
	kit := s.work(on(2, "failing"))
	s.awaitSize("retry", 3)
	s.awaitSize("dead", 3)
	raws := append(append(append(s.queue("default"), s.members("schedule")...), s.members("retry")...), s.members("dead")...)
	raws = append(raws, s.hash(&goProcess{identity: kit.Identity()}, "info"))
	if len(raws) != 13 {
		t.Fatalf("%d texts", len(raws))
	}
	var again []string
	s.ruby(`args[0].map { |raw| JSON.generate(JSON.parse(raw)) }`, &again, raws)
	for i := range raws {
		if again[i] != raws[i] {
			t.Errorf("Go   %s\nRuby %s", raws[i], again[i])
		}
	}
}

func TestCheck36AWholeSecondIsWrittenWithAFraction(t *testing.T) {
	s := newSite(t)
	var raw, scheduled string
	synctest.Test(t, func(t *testing.T) { // where the clock stands at midnight, UTC, of the first day of 2000
		memory := testkit.NewMemory(t)
		c := client.New(memory.Client)
		harness.Must(c.PushClass(t.Context(), "Record", nil))(t)
		harness.Must(c.PushClass(t.Context(), "Record", nil, client.In(time.Hour)))(t)
		raw = memory.Client.LIndex(t.Context(), "queue:default", 0).Val()
		scheduled = memory.Client.ZRange(t.Context(), "schedule", 0, 0).Val()[0]
	})
	for _, text := range []string{field(t, raw, "created_at"), field(t, raw, "enqueued_at"), field(t, scheduled, "created_at")} {
		harness.Equal(t, "midnight is written as", text, "946684800.0")
	}
	s.put("default", raw)
	var dates struct{ Six, Eight string }
	s.ruby(`j = Sidekiq::Queue.new.first
{six: j.created_at.iso8601, eight: Time.at(`+seconds8+`.(j["created_at"])).utc.iso8601}`, &dates)
	if dates.Six != "2000-01-01T00:00:00Z" || dates.Eight != dates.Six {
		t.Errorf("6.4.1 shows %s, by 8's rule it is %s", dates.Six, dates.Eight)
	}
}

func TestCheck38StrictAndWeightedQueuesAreFetchedLikeSidekiqs(t *testing.T) {
	s := newSite(t)
	fill := func(a, b int) {
		for queue, n := range map[string]int{"b": b, "a": a} {
			_, err := s.client.PushBulkClass(t.Context(), "Record", numbered(n), inQueue(queue))
			s.must(err)
		}
	}
	fill(200, 200)
	kit := s.work(on(1, "a", "b"))
	for i, r := range s.awaitRuns(400, "") {
		if want := map[bool]string{true: "a", false: "b"}[i < 200]; r.Queue != want {
			t.Fatalf("strict: run %d is from %s", i+1, r.Queue)
		}
	}
	kit.Stop()
	s.awaitEmpty("b")

	// 4,000 fetches instead of 1,000: seven standard deviations fit into the bounds
	const fetches = 4000
	fill(fetches, fetches)
	s.work(workerSpec{Capsules: []capsuleSpec{{Concurrency: 1, Weights: map[string]int{"a": 3, "b": 1}}}})
	first := 0
	for _, r := range s.awaitRuns(400+fetches, "")[400 : 400+fetches] {
		if r.Queue == "a" {
			first++
		}
	}
	t.Logf("weights 3:1: %d of %d from a", first, fetches)
	if first < fetches*70/100 || first > fetches*80/100 {
		t.Errorf("weights 3:1: %d of %d fetches from a", first, fetches)
	}
}

func TestCheck39TheDeadSetIsTrimmedAtAGoDeath(t *testing.T) {
	s := newSite(t)
	now := float64(time.Now().Unix())
	var old []redis.Z
	for i := range 10_050 {
		old = append(old, redis.Z{Score: now - 20_000 + float64(i), Member: fmt.Sprintf(`{"class":"Old","args":[],"jid":"%024d"}`, i)})
	}
	expired := redis.Z{Score: now - 181*24*3600, Member: `{"class":"Older","args":[]}`}
	s.must(s.rdb.ZAdd(t.Context(), "dead", append(old, expired)...).Err())
	jid := s.push("Fail", `[]`, client.Retry(0))
	s.work(on(2, "default"))
	s.awaitIn("dead", jid)
	harness.Equal(t, "in dead", s.stats().Dead, 9_999)
	if newest := s.members("dead")[9_998]; !strings.Contains(newest, jid) {
		t.Errorf("the newest is %s", newest)
	}
	if oldest := s.members("dead")[0]; !strings.Contains(oldest, fmt.Sprintf("%024d", 10_050-9_998)) {
		t.Errorf("the oldest is %s", oldest)
	}
}

func TestCheck40ABadScheduleMemberIsKeptAndStopsNobody(t *testing.T) {
	s := newSite(t)
	bad := []string{`not json`, ``, `{"class":"Record","args":[],"queue":""}`}
	for i, raw := range bad {
		s.must(s.rdb.ZAdd(t.Context(), "schedule", redis.Z{Score: float64(i + 1), Member: raw}).Err())
	}
	good := s.push("Record", `["good"]`, client.In(time.Millisecond))
	s.work(on(2, "default"))
	s.awaitRuns(1, good)
	s.awaitSize("dead", len(bad))
	for _, raw := range bad {
		if s.rdb.ZScore(t.Context(), "dead", raw).Err() != nil {
			t.Errorf("%q is not in dead", raw)
		}
	}
	harness.Equal(t, "left in schedule", len(s.members("schedule")), 0)
}

func TestCheck43AnUnknownClassIsRetriedAsUnderRuby(t *testing.T) {
	other := withSharedSidekiq(t)
	s := secondSite(t)
	there := other.push("Nowhere", `[1]`, inQueue("check43"))
	here := s.push("Nowhere", `[1]`, inQueue("check43"))
	s.work(on(2, "check43"))
	ruby, _ := other.awaitIn("retry", there)
	ours, score := s.awaitIn("retry", here)
	var a, b []string
	for key := range payload(t, ruby).Keys() {
		a = append(a, key)
	}
	for key := range payload(t, ours).Keys() {
		b = append(b, key)
	}
	if strings.Join(a, " ") != strings.Join(b, " ") {
		t.Errorf("Ruby's fields: %v\nGo's fields:   %v", a, b)
	}
	e := s.entry("RetrySet", here)
	if e.Item["error_class"] != "troupe.UnknownClassError" || !strings.Contains(fmt.Sprint(e.Item["error_message"]), "Nowhere") ||
		e.Item["retry_count"] != 0.0 || e.At < score-1 {
		t.Errorf("Ruby's RetrySet shows %+v", e)
	}
}

func TestCheck44AnErrorMessageIsCutToTenThousandCharactersOfUTF8(t *testing.T) {
	s := newSite(t)
	long, garbled := s.push("LongWinded", `[]`), s.push("Garbled", `[]`)
	s.work(on(2, "default"))
	for jid, want := range map[string]string{long: strings.Repeat("é", 10_000), garbled: strings.Repeat("\ufffd", 10_000)} {
		raw, _ := s.awaitIn("retry", jid)
		var seen struct {
			Length int
			Valid  bool
			Same   bool
		}
		s.ruby(`m = Sidekiq::RetrySet.new.find_job(args[0])["error_message"]
{length: m.length, valid: m.valid_encoding?, same: m == args[1]}`, &seen, jid, want)
		if seen.Length != 10_000 || !seen.Valid || !seen.Same || !utf8.ValidString(raw) {
			t.Errorf("Ruby sees %+v", seen)
		}
	}
}

func TestCheck45AHundredLevelsRunAndOneMoreIsDeadOnBothSides(t *testing.T) {
	other := withSharedSidekiq(t)
	s := secondSite(t)
	// the job itself is the first level and its args the second
	nested := func(levels int) string {
		n := levels - 1
		return fmt.Sprintf(`{"class":"Record","args":%s%s,"jid":"%s","queue":"check45","retry":true,"created_at":1.5,"enqueued_at":1.5}`,
			strings.Repeat("[", n), strings.Repeat("]", n), strconv.Itoa(levels))
	}
	for _, side := range []*site{s, other} {
		side.put("check45", nested(101), nested(100))
	}
	s.work(on(2, "check45"))
	if r := s.awaitRuns(1, "100")[0]; r.Payload != nested(100) {
		t.Errorf("Go ran %s", r.Payload)
	}
	other.rubyRuns(1, ofJID("100"))
	for _, side := range []*site{s, other} {
		if raw, _ := side.awaitIn("dead", "101"); raw != nested(101) {
			t.Errorf("in dead: %s", raw)
		}
		if raw, _ := side.find("dead", "100"); raw != "" {
			t.Errorf("in dead: %s", raw)
		}
	}
}
