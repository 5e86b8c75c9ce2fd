package web

import (
	"context"
	"encoding/json"
	"html"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/flight"
	outcomes "github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/test/redistest"
)

func TestJobPage(t *testing.T) {
	s := start(t)
	s.fixture()
	nowhere := s.get("/jobs/nosuchjob")
	contains(t, "nowhere", nowhere, "it is done, was discarded, or was never pushed", "Looked for in running, in progress, retry, scheduled, dead, held, queue:a/b.json")
	hasNot(t, "nowhere", nowhere, "<button name=\"do\"")

	var x struct {
		Place   string
		Payload map[string]json.RawMessage
	}
	if err := json.Unmarshal(s.data("/jobs/"+fixtureJID+".json"), &x); err != nil || x.Place != "retry" || string(x.Payload["args"]) != `[{"token":"[masked]"}]` {
		t.Errorf("%+v, %v", x, err)
	}
	page := s.get("/jobs/" + fixtureJID)
	contains(t, "the page", page, "1 of 26", "it failed", "Retry", "Kill", "created_at")
	hasNot(t, "the page", page, "s3cr3t")
	hasNot(t, "a viewer's", s.get("/jobs/"+fixtureJID, "Role", "viewer"), "Kill")
	hasNot(t, "a dead one's", s.get("/jobs/2123456789abcdef01234567"), ">Kill<")
	key := between(page, `name="key" value="`, `"`)
	form := url.Values{"do": {"kill"}, "key": {key}, "jid": {fixtureJID}}
	_, text := s.post("/retries/ticked", form)
	contains(t, "killed", text, "1 job killed.", "It is dead since")
	_, text = s.post("/retries/ticked", form)
	contains(t, "killed again", text, "1 gone: somebody was faster ("+fixtureJID+").", "It is dead since")
	contains(t, "what was done to it", s.get("/audit?action="+fixtureJID), "1 job killed.", "1–2 of 2")
	contains(t, "the page", s.get("/jobs/"+fixtureJID), `<a href="/audit?action=`+fixtureJID+`">What people did to it</a>`)
	hasNot(t, "a viewer's", s.get("/jobs/"+fixtureJID, "Role", "viewer"), "What people did to it")

	jid := between(s.get("/queues/a%2Fb%2Ejson"), `href="/jobs/`, `?`)
	page = s.get("/jobs/" + jid)
	contains(t, "a queued one", page, "It is number 1 of 3", "Delete from the queue", "12345678901234567890")
	_, text = s.post("/queues/a%2Fb%2Ejson/delete", url.Values{"key": {between(page, `name="key" value="`, `"`)}})
	contains(t, "deleted", text, jid+" (Billing::Charge) is deleted")
	contains(t, "after that", s.get("/jobs/"+jid), "never pushed")
}

// scans counts the searches through whole sets.
type scans struct{ n atomic.Int64 }

func (*scans) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*scans) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (s *scans) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if slices.Contains(cmd.Args(), any("scan")) {
				s.n.Add(1)
			}
		}
		return next(ctx, cmds)
	}
}

// Links to a job carry where it is, so that no set is searched through for it.
func TestLinksCarryWhereAJobIs(t *testing.T) {
	var found scans
	s := start(t, func(o *Options) { o.Redis.AddHook(&found) })
	now := time.Now()
	job := func(jid string) string {
		return `{"class":"Far","args":[],"queue":"q","jid":"` + jid + `","error_class":"E","error_message":"boom"}`
	}
	for i := range 120 {
		s.rdb.LPush(t.Context(), "queue:q", job("q"+strconv.Itoa(i)))
	}
	s.rdb.SAdd(t.Context(), "queues", "q")
	s.rdb.ZAdd(t.Context(), "dead", z(float64(now.Unix()), job("died")), z(1e9, job("dead")))
	s.rdb.ZAdd(t.Context(), "schedule", z(2e9, job("later")))
	s.rdb.ZAdd(t.Context(), "retry", z(math.Inf(1), job("never")))
	if err := flight.Write(t.Context(), s.rdb, "h:1:a", []flight.Record{{At: now, Kind: outcomes.Died.Kind(), JID: "died", Class: "Far"}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ page, jid, place string }{
		{"/queues/q", "q0", "Queue q"}, {"/queues/q?after=100", "q119", "Queue q"}, {"/search?q=q117", "q117", "Queue q"}, {"/search?q=q3", "q3", "Queue q"},
		{"/dead", "dead", "Dead"}, {"/scheduled", "later", "Scheduled"}, {"/retries", "never", "Retries"}, {"/search?q=later", "later", "Scheduled"}, {"/events", "died", "Dead"},
	} {
		page := s.get(c.page)
		link := `/jobs/` + c.jid + html.UnescapeString(between(page, `href="/jobs/`+c.jid, `"`))
		before := found.n.Load()
		contains(t, link, between(s.get(link), `<h2 id="where">`, "</h2>"), c.place)
		if n := found.n.Load() - before; n > 0 {
			t.Errorf("%s leads to %s: %d searches", c.page, link, n)
		}
	}
	link := "/jobs/q9?in=queue%3Aq&position=10"
	s.rdb.RPopCount(t.Context(), "queue:q", 9)
	before := found.n.Load()
	contains(t, "one that has moved on", s.get(link), "It is number 1 of 111")
	if n := found.n.Load() - before; n > 0 {
		t.Errorf("%d searches", n)
	}
}

func between(text, from, to string) string {
	_, text, _ = strings.Cut(text, from)
	text, _, _ = strings.Cut(text, to)
	return text
}

func TestBacktrace(t *testing.T) {
	s := start(t)
	redistest.Ruby(s.t, s.url, `
lines = (1..300).map { |n| "/app/<job>.rb:#{n}:in 'perform'" }
job = {"class" => "C", "args" => [], "jid" => "bt", "retry" => false, "retry_count" => 0, "error_class" => "E", "error_message" => "é",
  "error_backtrace" => [Zlib::Deflate.deflate(JSON.dump(lines))].pack("m")}
Sidekiq.redis { |c| c.zadd("dead", 1795000000, JSON.dump(job)) }`)
	page := s.get("/jobs/bt")
	contains(t, "the page", page, "<details><summary>Backtrace, 200 lines", "/app/&lt;job&gt;.rb:1:in", "1 of 1")
}

func TestSearch(t *testing.T) {
	s := start(t)
	s.fixture()
	contains(t, "an id", s.get("/search?q="+fixtureJID), "It has failed 1 time")
	status, _, answer := s.do(http.MethodGet, "/search?q="+fixtureJID, "")
	if status != http.StatusOK || answer.Request.URL.Path != "/jobs/"+fixtureJID {
		t.Errorf("it leads to %s", answer.Request.URL)
	}
	page := s.get("/search?q=charge")
	contains(t, "a class", page, "Retries</a>", "Scheduled</a>", "Dead</a>", "Queue a/b.json</a>", "3 found", "Held by ", `href="/dead?q=charge"`)
	contains(t, "an error", s.get("/search?q=IT+FAILED"), "Dead</a>")
	contains(t, "nothing", s.get("/search?q=nonesuch"), "Nothing found for nonesuch", "10 jobs")
	contains(t, "no text", s.get("/search"), "Find a job, wherever it is")
	s.rdb.ZAdd(t.Context(), "dead", z(1795000000, `{"class":"Mail","jid":"m1","args":[{"to": "M\u00fcller"}]}`))
	for _, text := range []string{"m\u00fcller", `M\u00fcller`, `{"to":"M\u00fcller"}`, `"to": "M\u00fcller"`} {
		contains(t, "a search for "+text, s.get("/search?q="+url.QueryEscape(text)), "1 found")
		contains(t, "the filter "+text, s.get("/dead?q="+url.QueryEscape(text)), "m1")
	}
	s.rdb.SAdd(t.Context(), "queues", "odd")
	s.rdb.Set(t.Context(), "queue:odd", "no list", 0)
	contains(t, "with a queue that is none", s.get("/search?q=charge"), "3 found", "queue:odd: what is there is no list")
	s.rdb.Del(t.Context(), "queue:odd")
	seed(t, s.rdb, "dead", mostSearched+500, "1795000000 + i", plainJob)
	contains(t, "a part with nothing", s.get("/search?q=nonesuch"), "Nothing found so far for nonesuch", "the others are still to be searched", "Go on")
	rest := s.list("/search?q=nonesuch").Next
	contains(t, "a later part", s.get(rest), "Nothing found in this part for nonesuch")
	var places []string
	n := 0
	for path := "/search?q=charge"; path != ""; n++ {
		var v struct {
			Data found
			Next string
		}
		if err := json.Unmarshal([]byte(s.get(path, "Accept", "application/json")), &v); err != nil || n > 100 {
			t.Fatal(err, n)
		}
		for _, p := range v.Data.Places {
			places = append(places, p.Place)
		}
		path = v.Next
	}
	if got := strings.Join(places, " "); n < 2 || got != "retry scheduled dead queue:a/b.json held held" {
		t.Errorf("%d parts: %s", n, got)
	}
}

// What has no name has no link, and counts stay while nobody looks.
func TestNamesAndCounts(t *testing.T) {
	s := start(t)
	ctx := t.Context()
	s.rdb.ZAdd(ctx, "retry", z(1995000000, `{"class":"Nowhere","jid":"n1","args":[],"queue":""}`), z(1995000001, `{"class":"","jid":"","args":[]}`), z(1995000002, `{"class":"Up","jid":"u1","args":[],"queue":".."}`))
	s.get("/") // which waits for the first look
	page := s.get("/retries")
	hasNot(t, "the list", page, `href="/queues/"`, `href="/classes/"`, `href="/jobs/"`, `href="/queues/.."`)
	contains(t, "the list", page, `<span class="muted">none</span>`, `Retries<span class="n">3</span>`, `Dead<span class="n">0</span>`)
	s.rdb.SAdd(ctx, "queues", "")
	s.rdb.LPush(ctx, "queue:", `{"class":"A","jid":"q1","args":[]}`)
	hasNot(t, "the queues", s.get("/queues"), `href="/queues/"`)
	s.h.sampler.mu.Lock()
	s.h.sampler.looked = time.Now().Add(-time.Hour) // as if it had rested, and Redis did not answer
	s.h.sampler.mu.Unlock()
	contains(t, "after a rest", s.get("/retries"), `Retries<span class="n">`)
}
