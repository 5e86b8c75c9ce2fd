package web

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/redistest"
)

// listed is the JSON of a page of a set.
type listed struct {
	Data struct {
		Total, Searched int64
		Jobs            []struct {
			Key, JID, Class, Try string
			Args                 json.RawMessage
		}
	}
	Next, Partial string
}

func (s *site) list(path string, headers ...string) (l listed) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(s.get(path, append(headers, "Accept", "application/json")...)), &l); err != nil {
		s.t.Fatal(err)
	}
	return l
}

// all are the jids of a list, page by page.
func (s *site) all(path string) (jids []string) {
	s.t.Helper()
	for n := 0; path != ""; n++ {
		l := s.list(path)
		for _, j := range l.Data.Jobs {
			jids = append(jids, j.JID)
		}
		if path = l.Next; n > 50 {
			s.t.Fatal("the list does not end")
		}
	}
	return jids
}

// seed fills a set by a script: score and job of each i from 1 to n, as Lua expressions.
func seed(tb testing.TB, rdb redis.UniversalClient, set string, n int, score, job string) {
	tb.Helper()
	const chunk = 5_000 // a longer script lets others wait
	for from := 1; from <= n; from += chunk {
		lua := fmt.Sprintf(`for i = %d, %d do redis.call('ZADD', KEYS[1], %s, %s) end`, from, min(n, from+chunk-1), score, job)
		if err := rdb.Eval(tb.Context(), lua, []string{set}).Err(); err != nil && err != redis.Nil { //nolint:errorlint // go-redis returns it bare
			tb.Fatal(err)
		}
	}
}

const plainJob = `'{"class":"Work","queue":"default","args":[' .. i .. '],"jid":"j' .. i .. '","retry":true,"error_class":"E","error_message":"failed ' .. i % 10 .. '"}'`

func TestSetsOfRuby(t *testing.T) {
	s := start(t)
	redistest.Ruby(s.t, s.url, `
class Charge; include Sidekiq::Worker; sidekiq_options queue: "money", retry: 7; def perform(*); end; end
Charge.perform_in(3630, 12345678901234567890, {"password" => "s3cr3t", "note" => "<b>é</b>"})
job = {"class" => "Charge", "queue" => "money", "args" => [12345678901234567890, {"token" => "s3cr3t"}], "jid" => "abcdefabcdefabcdefabcdef", "retry" => 7, "retry_count" => 1,
  "error_class" => "Net::Timeout", "error_message" => "502 <script>", "created_at" => Time.now.to_f, "tags" => ["vip"]}
Sidekiq.redis { |c| c.zadd("retry", Time.now.to_f + 60, JSON.dump(job)); c.zadd("dead", Time.now.to_f, "no job {") }
Sidekiq::DeadSet.new.kill(JSON.dump(job.merge("jid" => "dead00000000000000000000")))`)
	page := s.get("/retries")
	contains(t, "retries", page, "Charge", "12345678901234567890", "[masked]", "2 of 8", "Net::Timeout", "502 &lt;script&gt;", ">vip<", `href="/queues/money"`)
	hasNot(t, "retries", page, "s3cr3t", "<script>alert", "12345678901234567000")
	contains(t, "scheduled", s.get("/scheduled"), "12345678901234567890", "&lt;b&gt;é&lt;/b&gt;", "in 1h")
	contains(t, "dead", s.get("/dead"), "dead00000000000000000000", "no job:", "[&#34;[masked]&#34;]")
	contains(t, "dead, revealed", s.get("/dead?reveal=1"), "[&#34;no job {&#34;]", "s3cr3t")
	if l := s.list("/scheduled"); string(l.Data.Jobs[0].Args) != `[12345678901234567890,{"password":"[masked]","note":"<b>é</b>"}]` {
		t.Errorf("args %s", l.Data.Jobs[0].Args)
	}
	job := s.get("/jobs/abcdefabcdefabcdefabcdef")
	contains(t, "the job", job, "It has failed 2 times, at last with Net::Timeout", "12345678901234567890", "2 of 8", "retry_count", "Retry", "Kill", "failed", "pushed")
	hasNot(t, "the job", job, "s3cr3t")
	contains(t, "the export", s.get("/retries/export"), `12345678901234567890`, `\"token\":\"[masked]\"`, `"masked":true`)
	contains(t, "all of the export", s.get("/retries/export?reveal=1"), `\"token\":\"s3cr3t\"`)
}

// Who sees masked arguments cannot look for texts in them, with any page.
func TestArgumentsAreNotSearched(t *testing.T) {
	s := start(t)
	s.fixture()
	for _, path := range []string{"/dead?q=s3cr3t", "/search?q=s3cr3t", "/dead/export?q=s3cr3t"} {
		for role, want := range map[string]bool{"": true, "operator": false, "viewer": false} {
			if text := s.get(path, "Role", role, "Accept", "application/json"); strings.Contains(text, "Billing") != want {
				t.Errorf("%s as %q: %s", path, role, text)
			}
		}
	}
	if l := s.list("/dead?q=IT+FAILED", "Role", "viewer"); len(l.Data.Jobs) != 1 {
		t.Errorf("by the error: %+v", l)
	}
}

func TestFilter(t *testing.T) {
	s := start(t)
	now := float64(time.Now().Unix())
	for _, set := range []string{"retry", "dead"} {
		seed(t, s.rdb, set, 300, fmt.Sprintf("%f + (i - 150) * 60", now), plainJob)
	}
	for path, want := range map[string]int{
		"/dead?error=failed+3": 30, "/dead?class=Work": 300, "/dead?class=Wor": 0, "/dead?q=J29": 11, "/dead?from=10m": 160, "/dead?to=10m": 140, "/dead?from=20m&to=10m": 10,
		"/retries?from=10m": 141, "/retries?to=10m": 159, "/retries?from=10m&to=20m": 10, "/retries?tag=x": 0, "/retries?queue=default&error=E": 300,
	} {
		if got := s.all(path); len(got) < want-1 || len(got) > want+1 { // a second passes
			t.Errorf("%s: %d, expected %d", path, len(got), want)
		}
	}
	// The time of the failure is not that of the next try, or of the death.
	for set, at := range map[string]float64{"retry": now + 9e5, "dead": now - 9e5} {
		s.rdb.ZAdd(t.Context(), set, z(at, fmt.Sprintf(`{"class":"Late","args":[],"jid":"late","retry_count":1,"failed_at":%f,"retried_at":%f}`, now-9e5, now-60)),
			z(at, fmt.Sprintf(`{"class":"Late","args":[],"jid":"early","retry_count":0,"failed_at":%f}`, now-9e4)))
	}
	for path, want := range map[string]string{
		"?class=Late&failed_from=1h": "[late]", "?class=Late&failed_to=1h": "[early]", "?class=Late&failed_from=1h&failed_to=1s": "[late]", "?class=Late&failed_from=1s": "[]",
	} {
		for _, set := range []string{"/retries", "/dead"} {
			if got := fmt.Sprint(s.all(set + path)); got != want {
				t.Errorf("%s: %s, expected %s", set+path, got, want)
			}
			_, ask, _ := s.do(http.MethodGet, set+"/all.json"+path+"&do=delete", "")
			if n := strings.Count(ask, `"jid":"late"`); (n > 0) != (want == "[late]") {
				t.Errorf("all of %s: %s", set+path, ask)
			}
		}
	}
	contains(t, "the bar", s.get("/retries"), "Next try from", "Next try until", "Failed from", `failed_from=1h">failed within the last hour`)
	contains(t, "the question", s.get("/retries/all?do=delete&class=Late&failed_from=1h"), "failed since 2", `name="failed_from" value="2`)
	hasNot(t, "the bar", s.get("/scheduled"), "Failed from")
	s.rdb.ZRemRangeByRank(t.Context(), "retry", -2, -1)
	s.rdb.ZRemRangeByRank(t.Context(), "dead", 0, 1)
	for _, path := range []string{"/dead?from=last+week", "/dead?after=x"} {
		if status, _, _ := s.do(http.MethodGet, path, ""); status != http.StatusBadRequest {
			t.Errorf("%s: %d", path, status)
		}
	}
	status, text, _ := s.do(http.MethodGet, "/dead?from=last+week&class=Wor%22k", "")
	contains(t, "a wrong time", text, "The time from: got &#34;last week&#34;", `name="from" value="last week"`, `name="class" value="Wor&#34;k"`)
	if hasNot(t, "a wrong time", text, "To the overview", "<caption>"); status != http.StatusBadRequest {
		t.Errorf("a wrong time: %d", status)
	}
	if status, text, _ = s.do(http.MethodGet, "/dead.json?from=last+week", ""); status != http.StatusBadRequest || !strings.Contains(text, `"error":{`) {
		t.Errorf("a wrong time in JSON: %d %s", status, text)
	}
	contains(t, "one page", s.get("/dead?error=failed+3"), "30 of 300 jobs", "Retry or delete all that match…")
	text = s.get("/dead?class=Work")
	contains(t, "the first of some pages", text, ">300 jobs<")
	contains(t, "without a filter", s.get("/retries"), ">300 jobs<", " or reschedule all 300…")
	for _, path := range []string{"/dead/all?do=delete&class=Work&q=j29", "/dead/all?do=delete&class=Work&q=j29&tag=none"} {
		_, chosen, _ := strings.Cut(path, "delete&")
		back := s.get(path)
		want := `href="/dead?class=Work&amp;q=j29`
		if strings.Contains(chosen, "tag") {
			want += "&amp;tag=none"
		}
		if n := strings.Count(back, want+`"`); n != 2 { // the crumb and the button
			t.Errorf("%s leads back %d times", path, n)
		}
	}
	contains(t, "nothing found", s.get("/dead?class=None"), "Nothing found for class", "Show all")
	contains(t, "nothing there", s.get("/scheduled"), "Nothing is scheduled")
}

// Pages follow each other without a gap or a repetition, in both orders, with scores that many
// entries share, and when the last entry of a page has gone.
func TestPagesFollowEachOther(t *testing.T) {
	s := start(t)
	for name, score := range map[string]string{"one score each": "1795000000 + i", "some of a score": "1795000000 + math.floor(i / 7)", "all of a score": "1795000000"} {
		for _, set := range []string{"dead", "scheduled"} {
			key := map[string]string{"dead": "dead", "scheduled": "schedule"}[set]
			s.rdb.Del(t.Context(), key)
			seed(t, s.rdb, key, 450, score, plainJob)
			want := s.rdb.ZRange(t.Context(), key, 0, -1).Val()
			if set == "dead" {
				slices.Reverse(want)
			}
			got := s.all("/" + set)
			for i := range want {
				if len(got) != len(want) || !strings.Contains(want[i], `"`+got[i]+`"`) {
					t.Fatalf("%s, %s: %d jobs, number %d is %v", set, name, len(got), i, got[min(i, len(got)-1)])
				}
			}
			first := s.list("/" + set)
			s.rdb.ZRem(t.Context(), key, want[99])
			seen := map[string]bool{}
			for _, jid := range s.all(first.Next) {
				seen[jid] = true
			}
			for _, raw := range want[100:] {
				var j struct{ JID string }
				if err := json.Unmarshal([]byte(raw), &j); err != nil || !seen[j.JID] {
					t.Fatalf("%s, %s: %s is not there after the last of a page has gone, %v", set, name, j.JID, err)
				}
			}
		}
	}
}

// A search ends at 100,000 entries, and goes on from there.
func TestSearchIsBounded(t *testing.T) {
	s := start(t)
	seed(t, s.rdb, "dead", mostSearched+500, "1795000000 + i", plainJob)
	path, n, looked := "/dead?class=None", 0, int64(0)
	for ; path != ""; n++ {
		l := s.list(path)
		looked += l.Data.Searched
		if (l.Next != "") != (l.Partial != "") || l.Data.Searched > mostSearched || n > 100 {
			t.Fatalf("%+v", l)
		}
		if n == 0 {
			contains(t, "the page", s.get(path), "Nothing found so far for class", "Searched ", " of 100,500 entries and found 0 so far.", "Go on")
		}
		if n > 0 {
			contains(t, "a later page", s.get(path), "Nothing found in this part for class")
		}
		path = l.Next
	}
	if n < 2 || looked != mostSearched+500 {
		t.Errorf("%d pages, %d entries", n, looked)
	}
	if text := s.get("/dead/export?class=None", "Role", "viewer"); !strings.Contains(text, `"partial":"searched the first`) {
		t.Errorf("the export: %.300s", text)
	}
	if text := s.get("/dead/export?q=j100500"); strings.Count(text, "\n") != 1 {
		t.Errorf("the export of an admin: %.300s", text)
	}
	if text := s.get("/search?q=nonesuch", "Accept", "application/json"); !strings.Contains(text, `"next":"/search?`) {
		t.Errorf("the search of all: %.300s", text)
	}
}

// heap is what is allocated in use after a collection.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// allocated is what a call allocates in all, collected or not.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// A page of a big set costs what a page costs: it allocates no more than one of a small set.
func TestAPageCostsAPage(t *testing.T) {
	s := start(t)
	seed(t, s.rdb, "dead", 200, "1795000000 + i", plainJob)
	s.get("/dead") // what is made once
	small := allocated(func() { s.get("/dead") })
	seed(t, s.rdb, "dead", 50_000, "1795000000 + i", plainJob)
	if big := allocated(func() { s.get("/dead") }); big > 2*small+4<<20 {
		t.Errorf("a page of 50,000 allocates %d bytes, one of 200 %d", big, small)
	}
}

// BenchmarkDeadPage is a page of a million dead jobs, from the middle of the set.
func BenchmarkDeadPage(b *testing.B) {
	s := start(b)
	seed(b, s.rdb, "dead", 1_000_000, "1795000000 + i", plainJob)
	path := s.list("/dead?to=1795500000").Next
	path = strings.Replace(path, "to=1795500000", "", 1)
	s.get(path)
	before := heap()
	var most int64
	var times []time.Duration
	for b.Loop() {
		began := time.Now()
		s.get(path)
		times = append(times, time.Since(began))
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, int64(m.HeapAlloc)-before)
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Milliseconds()), "median-ms")
	b.ReportMetric(float64(most)/(1<<20), "heap-MB")
}

// Spans of time that are asked for often are one click away, and the rest of the filter stays.
func TestSpansOfTime(t *testing.T) {
	s := start(t)
	today := time.Now().UTC().Truncate(24 * time.Hour)
	for jid, at := range map[string]time.Time{"now": time.Now(), "before": today.Add(-time.Hour), "long ago": today.Add(-25 * time.Hour)} {
		for _, class := range []string{"A", "B"} {
			s.rdb.ZAdd(t.Context(), "dead", redis.Z{Score: float64(at.Unix()), Member: fmt.Sprintf(`{"class":%q,"args":[],"jid":"%s %s"}`, class, class, jid)})
		}
	}
	page := s.get("/dead?class=A&n=100")
	for span, want := range map[string][]string{"today": {"A now"}, "yesterday": {"A before"}} {
		href, _, _ := strings.Cut(page, `">`+span+"</a>")
		href = strings.ReplaceAll(href[strings.LastIndex(href, `"`)+1:], "&amp;", "&")
		if got := s.all(href); !slices.Equal(got, want) {
			t.Errorf("%s, %s: %q, expected %q", span, href, got, want)
		}
	}
	contains(t, "the retries", s.get("/retries?q=x"), `<a href="/retries?q=x&amp;to=1h">next try within an hour</a>`)
}

// A score that is no time before the year 10000 is told as it is, and never as a time.
func TestScoresThatAreNoTimes(t *testing.T) {
	s := start(t)
	for _, set := range []string{"retry", "schedule", "dead"} {
		for i, score := range []float64{math.Inf(-1), -1e300, 4e11, 1e15, math.Inf(1)} {
			s.rdb.ZAdd(t.Context(), set, z(score, `{"class":"C","args":[],"queue":"q","jid":"`+set+strconv.Itoa(i)+`","at":1e300,"enqueued_at":-1e300}`))
		}
	}
	for _, path := range []string{"/retries", "/scheduled", "/dead", "/search?q=C"} {
		contains(t, path, s.get(path), "score -inf", "score &#43;inf", "score -1e&#43;300", "score 400000000000<", "score 1000000000000000<")
		page, query, _ := strings.Cut(path, "?")
		contains(t, path, string(s.data(page+".json?"+query)), `"score":"-inf"`, `"score":"+inf"`, `"score":"400000000000"`)
	}
	for jid, part := range map[string]string{
		"retry0": "until a process is started", "schedule4": "It was pushed for the score +inf", "dead0": "It is dead since the score -inf", "dead4": "It is dead since the score +inf",
	} {
		text := string(s.data("/jobs/" + jid + ".json"))
		contains(t, jid, text, part)
		hasNot(t, jid, text, "0001-01-01")
	}
	page := s.get("/")
	contains(t, "the overview", page, "overdue")
	hasNot(t, "the overview", page, "106751")
}
