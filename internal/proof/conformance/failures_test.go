package conformance

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCheck08RubyReadsTheBacktraceOfAGoFailure(t *testing.T) {
	s := newSite(t)
	var jids [2]string
	s.ruby(`[true, 2].map { |b| Sidekiq::Client.push("class" => "Boom", "args" => [], "backtrace" => b) }`, &jids)
	s.work(on(2, "default"))
	for i, jid := range jids {
		raw, _ := s.awaitIn("retry", jid)
		lines := s.entry("RetrySet", jid).Backtrace
		if len(lines) == 0 || i == 1 && len(lines) != 2 || !strings.Contains(lines[0], "worker_test.go:") {
			t.Errorf("Ruby's backtrace: %q", lines)
		}
		// 7.2.1 and 7.2.2 cannot read newlines in it; 7 and 8 inflate and parse as here
		text, _ := payload(t, raw).String("error_backtrace")
		packed, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil || strings.ContainsAny(text, "\r\n") {
			t.Fatalf("not strict base64: %v: %q", err, text)
		}
		z, err := zlib.NewReader(bytes.NewReader(packed))
		s.must(err)
		plain, err := io.ReadAll(z)
		s.must(err)
		var again []string
		if err := json.Unmarshal(plain, &again); err != nil || !slices.Equal(again, lines) {
			t.Errorf("unpacked %s, %v", plain, err)
		}
	}
}

func TestCheck09TheWaitBeforeARetryIsSidekiqs(t *testing.T) {
	s := newSite(t)
	const each = 10
	want := map[string]int{} // jid -> retry_count of the failure to come
	for count := range 25 {
		for i := range each {
			jid := fmt.Sprintf("%024x", count*each+i)
			past := ""
			if count > 0 {
				past = fmt.Sprintf(`,"retry_count":%d,"failed_at":1795224881.5,"retried_at":1795224882.5,"error_class":"E","error_message":"m"`, count-1)
			}
			s.put("default", fmt.Sprintf(`{"class":"Fail","args":[],"retry":true,"queue":"default","jid":%q,"created_at":1795224881.25%s}`, jid, past))
			want[jid] = count
		}
	}
	began := time.Now()
	s.work(on(5, "default"))
	s.awaitSize("retry", len(want))
	entries := s.rdb.ZRangeWithScores(t.Context(), "retry", 0, -1).Val()
	slow := time.Since(began) > 15*time.Second // some may have failed twice by now
	spread := map[int]map[float64]bool{}
	for _, z := range entries {
		p := payload(t, z.Member.(string))
		n, _ := p.Int("retry_count")
		count, key := int(n), "retried_at"
		if count == 0 {
			key = "failed_at"
		}
		var failed float64
		text, _ := p.Get(key)
		decode(t, string(text), &failed)
		wait, least := z.Score-failed, math.Pow(float64(count), 4)+15
		if wait < least-1e-3 || wait >= least+10*float64(count+1) {
			t.Errorf("retry_count %d, wait %f, want [%f, %f)", count, wait, least, least+10*float64(count+1))
		}
		if first := want[p.JID()]; count < first || count > first && !slow {
			t.Errorf("retry_count %d, want %d", count, first)
		}
		if spread[count] == nil {
			spread[count] = map[float64]bool{}
		}
		spread[count][math.Round(wait)] = true
	}
	for count, waits := range spread {
		if len(waits) < 3 && !slow {
			t.Errorf("%d failures number %d wait only %d different times", each, count+1, len(waits))
		}
	}
}

func TestCheck11AFailureOfRubyIsKeptWhenGoFailsNext(t *testing.T) {
	s := withSharedSidekiq(t)
	first := s.push("FailInRuby", `["é"]`, inQueue("check11"))
	raw6, _ := s.awaitIn("retry", first)
	s.must(s.rdb.ZRem(t.Context(), "retry", raw6).Err())
	raw6 = strings.Replace(raw6, `"class":"FailInRuby"`, `"class":"Fail"`, 1)
	for _, millis := range []bool{false, true} {
		t.Run(map[bool]string{false: "float", true: "ms"}[millis], func(t *testing.T) {
			s := newSite(t)
			spec := on(2, "default", "low", "check11")
			spec.Millis = millis
			s.work(spec)
			ours := map[bool]string{false: "seconds with a fraction", true: "milliseconds"}[millis]
			for _, raw := range []string{raw6, golden(t, "v7_retry.json"), golden(t, "v8_retry.json")} {
				s.must(s.rdb.Do(t.Context(), "zadd", "retry", "1.5", raw).Err())
				jid := payload(t, raw).JID()
				s.awaitRuns(1, jid)
				again, _ := s.awaitIn("retry", jid)
				sameFields(t, raw, again, "retry_count", "retried_at", "enqueued_at", "error_message", "error_class")
				if field(t, again, "retry_count") != "1" || form(field(t, again, "retried_at")) != ours {
					t.Errorf("after the second failure: %s", again)
				}
			}
		})
	}
}

func TestCheck12UnknownFieldsSurviveFailureAndRetry(t *testing.T) {
	s := newSite(t)
	var pushed struct{ JID, Raw string }
	s.ruby(`jid = Sidekiq::Client.push("class" => "FailOnce", "args" => [123456789012345678901234567890, 1.5], "retry" => 5,
  "cattr" => {"user" => 7, "tenant" => "\u00e9<&>"}, "bid" => "b-1", "locale" => "de", "custom" => {"z" => 1.5, "a" => [nil, {}]})
{jid: jid, raw: Sidekiq.redis { |r| r.lindex("queue:default", -1) }}`, &pushed)
	// number texts that Ruby itself would not write
	foreign := `{"retry":5,"queue":"default","custom":{"z":1.10,"a":[1e3]},"class":"FailOnce","args":[-0,1E+2],"locale":"\u0064e",` +
		`"jid":"0123456789abcdef01234567","created_at":1795224881.1534805,"enqueued_at":1795224881.153557}`
	s.put("default", foreign)
	s.work(on(2, "default"))
	for jid, raw := range map[string]string{pushed.JID: pushed.Raw, "0123456789abcdef01234567": foreign} {
		stored, _ := s.awaitIn("retry", jid)
		sameFields(t, raw, stored)
		s.due("retry", stored)
		runs := s.awaitRuns(2, jid)
		if runs[0].Payload != raw {
			t.Errorf("first run\n got %s\nwant %s", runs[0].Payload, raw)
		}
		sameFields(t, raw, runs[1].Payload, "enqueued_at")
	}
}

func TestCheck13AnActiveJobIsDispatchedByWhatItWraps(t *testing.T) {
	s := newSite(t)
	var pushed struct{ JID, Display string }
	s.ruby(`jid = Sidekiq::Client.push("class" => "ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper",
  "wrapped" => "Emails::WelcomeJob", "args" => [{"job_class" => "Emails::WelcomeJob", "arguments" => ["bob", 7]}])
{jid: jid, display: Sidekiq::Queue.new.first.display_class}`, &pushed)
	want := map[string]string{pushed.JID: pushed.Display}
	for _, name := range []string{"v7_activejob.json", "v8_activejob.json"} {
		raw := golden(t, name)
		s.put("default", raw)
		want[payload(t, raw).JID()] = "Emails::WelcomeJob"
	}
	s.work(on(2, "default"))
	for _, r := range s.awaitRuns(len(want), "") {
		if r.Class != want[r.JID] {
			t.Errorf("job %s was dispatched to %q, want %q", r.JID, r.Class, want[r.JID])
		}
	}
}
