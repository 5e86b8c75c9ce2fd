package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/flight"
	outcomes "github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/runs"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// What processes have written for Sidekiq's metrics page is on ours: each run once, in whichever
// form it is.
func TestClasses(t *testing.T) {
	for name, dialects := range map[string]beat.Dialects{"7": beat.Dialect7, "8": beat.Dialect8, "both": beat.Dialect7 | beat.Dialect8} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			flush := func(age time.Duration, n int, took time.Duration) {
				m := beat.NewMetrics(fmt.Sprint("a:1:", age, took), dialects, func() map[string]runs.Totals { return nil })
				for range n {
					m.CountAs("A|B <x>", outcomes.Done, took)
				}
				m.CountAs("A|B <x>", outcomes.Error, took)
				harness.OK(t, m.Flush(t.Context(), s.rdb, time.Now().Add(-age)))
			}
			flush(5*time.Minute, 98, 10*time.Millisecond)
			flush(6*time.Minute, 2, 400*time.Millisecond)
			flush(3*time.Hour, 10, 40*time.Second)
			text := s.get("/classes")
			contains(t, "the hour", text, "A|B &lt;x&gt;", ">102<", ">2<", "≤ 20ms", "≤ 500ms")
			var data classesPage
			if err := json.Unmarshal(s.data("/classes.json?over=8h"), &data); err != nil || len(data.Classes) != 1 {
				t.Fatalf("%v, %+v", err, data)
			}
			if c := data.Classes[0]; c.Runs != 113 || c.Failed != 3 || *c.P50 != 0.02 || *c.P99 != 45 || c.Seconds < 401 || c.Seconds > 402 {
				t.Errorf("8 h: %+v", c)
			}
			const path = "/classes/A%7CB%20%3Cx%3E"
			text = s.get(path + "?over=8h")
			contains(t, "the class", text, `class="heat"`, ">113<", "≤ 45s", "in 10m")
			contains(t, "the class", text, `<rect class="h5"`)
			if rows := strings.Count(text, `<th scope="row">`); rows < 3 {
				t.Errorf("%d rows", rows)
			}
			var one classPage
			if err := json.Unmarshal(s.data(path+".json?over=72h"), &one); err != nil || one.Runs != 113 {
				t.Errorf("72 h: %v, %+v", err, one)
			}
		})
	}
}

// Ten minutes of 8 are known for three days.
func TestClassesOfDays(t *testing.T) {
	s := start(t)
	m := beat.NewMetrics("a:1:x", beat.Dialect8, func() map[string]runs.Totals { return nil })
	m.CountAs("Old", outcomes.Done, time.Second)
	harness.OK(t, m.Flush(t.Context(), s.rdb, time.Now().Add(-40*time.Hour)))
	hasNot(t, "8 h", s.get("/classes?over=8h"), ">Old<")
	contains(t, "72 h", s.get("/classes?over=72h"), ">Old<")
}

func TestEvents(t *testing.T) {
	s := start(t)
	at := time.Now().Add(-time.Hour)
	var all []flight.Record
	for i := range 150 {
		all = append(all, flight.Record{At: at.Add(time.Duration(i/2) * time.Second), Kind: outcomes.Failed.Kind(), JID: fmt.Sprint("j", i), Class: "Mail::Send", Text: "<boom> " + fmt.Sprint(i)})
	}
	s.record("a:1:x", all...)
	s.record("b:1:x", flight.Record{At: at.Add(time.Minute), Kind: flight.Crashed, Actor: "launcher/poller", Text: "no luck"})
	text := s.get("/events")
	contains(t, "the page", text, "&lt;boom&gt; 149", "/tree/a:1:x", "launcher/poller", "actor crashed")
	hasNot(t, "the page", text, "<boom>")
	count := 0
	for next, pages := "/events.json?class=Mail", 0; next != ""; pages++ {
		var v struct {
			Data eventsPage
			Next string
		}
		if err := json.Unmarshal([]byte(s.get(next)), &v); err != nil || pages > 3 {
			t.Fatal(err)
		}
		count += len(v.Data.Events)
		next = strings.Replace(v.Next, "/events?", "/events.json?", 1)
	}
	harness.Equal(t, "events on all pages", count, 150)
	contains(t, "of a kind", s.get("/events?kind=crashed"), "no luck")
	hasNot(t, "of a kind", s.get("/events?kind=crashed"), "boom")
	contains(t, "of a job", s.get("/events?jid=j7"), "&lt;boom&gt; 7<")
	hasNot(t, "of a process", s.get("/events?process=b:1:x"), "boom")
	for _, kind := range []string{outcomes.Failed.Kind(), flight.Crashed, flight.Restarted, flight.Fenced, flight.Rescued, outcomes.Unresponsive.Kind()} {
		if signs[eventStates[kind]][0] == "" {
			t.Errorf("%s has no sign", kind)
		}
	}
}

// Jobs of the dead are told, and put back from here where no process is left that would.
func TestOrphans(t *testing.T) {
	s := start(t)
	ctx := t.Context()
	s.fetcher("dead:1:x#default.1", "low", `{"class":"A","jid":"1","args":[]}`, `{"class":"A","jid":"2","args":[]}`)
	s.fetcher("live:1:x#mail.1", "mail", `{"class":"A","jid":"3","args":[]}`)
	s.rdb.Set(ctx, "troupe:lease:live:1:x#mail.1", "1", 20500*time.Millisecond)
	s.rdb.HSet(ctx, "troupe:places", "odd:1:x#default.1", `{"v":99,"queues":["x"]}`)
	text := s.get("/orphans")
	contains(t, "the page", text, `<a href="/events?kind=jobs+rescued">What was put back lately</a>`, "<dt>Lease</dt>")
	contains(t, "the page", text, "2 jobs belong to processes that are dead", "dead:<wbr>1:<wbr>x", "No process of troupe lives that puts them back", "when its lease ends, in ", "Written by another version", "Put them back…")
	contains(t, "the question", s.get("/orphans/rescue"), "Put 2 jobs back")
	s.beat("c:1:go", time.Now(), &beat.Pulse{Phase: "running"}, "")
	s.h.sampler.look()
	_, text = s.post("/orphans/rescue", url.Values{})
	contains(t, "beside a process", text, "Nothing was done: c:1:go lives")
	s.rdb.Del(ctx, "c:1:go", "processes", "troupe:pulses")
	s.h.sampler.look()
	_, text = s.post("/orphans/rescue", url.Values{})
	contains(t, "after it", text, "2 jobs of 1 dead capsule put back.")
	if low, mail := s.rdb.LLen(ctx, "queue:low").Val(), s.rdb.LLen(ctx, "queue:mail").Val(); low != 2 || mail != 0 {
		t.Errorf("%d and %d jobs are back", low, mail)
	}
}

// Programs that ask Sidekiq's pages for numbers get the same here.
func TestStatsOfRuby(t *testing.T) {
	s := start(t)
	s.beat("a:1:x", time.Now(), nil, `"default"`)
	c := client.New(s.rdb)
	for i := range 3 {
		for range i + 1 {
			harness.Must(c.PushClass(t.Context(), "A", nil, client.Queue([]string{"low", "default", `odd "{é}`}[i])))(t)
		}
	}
	s.rdb.Set(t.Context(), "stat:processed", 12345678901, 0)
	file := filepath.Join(t.TempDir(), "answers")
	redistest.Ruby(s.t, s.url, `
require "sidekiq/web"; require "rack/mock"
Sidekiq::Web.use Rack::Session::Cookie, secret: "x" * 64
answers = %w[/stats /stats/queues].map { |path| Rack::MockRequest.new(Sidekiq::Web).get(path).body }
File.write(`+fmt.Sprintf("%q", file)+`, answers.join("\n"))`)
	text := harness.Must(os.ReadFile(file))(t)
	stats, queues, _ := strings.Cut(string(text), "\n")
	var want, got map[string]any
	if json.Unmarshal([]byte(stats), &want) != nil || json.Unmarshal([]byte(s.get("/stats")), &got) != nil {
		t.Fatalf("%s\n%s", stats, s.get("/stats"))
	}
	for _, m := range []map[string]any{want, got} {
		if latency := m["sidekiq"].(map[string]any)["default_latency"].(float64); latency <= 0 {
			t.Errorf("latency %v", latency)
		}
		delete(m["sidekiq"].(map[string]any), "default_latency")
		for _, moving := range []string{"used_memory_human", "used_memory_peak_human", "connected_clients"} {
			if m["redis"].(map[string]any)[moving] == "" {
				t.Errorf("%s is not told", moving)
			}
			delete(m["redis"].(map[string]any), moving)
		}
		if at := m["server_utc_time"].(string); len(at) != len("12:00:00 UTC") {
			t.Errorf("time %q", at)
		}
		delete(m, "server_utc_time")
	}
	if !reflect.DeepEqual(want, got) {
		t.Errorf("%v\nexpected %v", got, want)
	}
	if mine := strings.TrimSpace(s.get("/stats/queues")); mine != queues {
		t.Errorf("%s\nexpected %s", mine, queues)
	}
}

// The script and the style are as small as they have to be.
func TestAssetsAreSmall(t *testing.T) {
	for _, name := range []string{"troupe.js", "troupe.css"} {
		a := assets()[name]
		if lines := strings.Count(string(a.plain), "\n"); len(a.packed) > 8<<10 || lines > 600 {
			t.Errorf("%s: %d bytes packed, %d lines", name, len(a.packed), lines)
		}
	}
}

// There are so many live connections and no more.
func TestMostLive(t *testing.T) {
	s := start(t)
	s.h.open[""] = mostLive
	status, text, _ := s.do(http.MethodGet, "/live?topic=overview", "")
	if status != http.StatusServiceUnavailable || s.h.openNow() != mostLive {
		t.Errorf("%d %s, %d open", status, text, s.h.openNow())
	}
}

// A client that does not read is dropped.
func TestSlowClient(t *testing.T) {
	s := start(t)
	s.h.liveWrite = 10 * time.Millisecond
	w := &stuck{header: http.Header{}, wrote: make(chan struct{})}
	ended := make(chan struct{})
	r := harness.Must(http.NewRequestWithContext(context.Background(), http.MethodGet, "/live?topic=overview", nil))(t)
	r.RequestURI = "/live?topic=overview"
	go func() {
		defer close(ended)
		s.h.ServeHTTP(w, r)
	}()
	<-w.wrote
	<-ended
	if s.h.openNow() != 0 {
		t.Error("it is still counted")
	}
}

// stuck is a client that does not read: writes end at their deadline.
type stuck struct {
	header   http.Header
	deadline time.Time
	wrote    chan struct{}
}

func (s *stuck) Header() http.Header                 { return s.header }
func (s *stuck) WriteHeader(int)                     {}
func (s *stuck) Flush()                              {}
func (s *stuck) SetWriteDeadline(at time.Time) error { s.deadline = at; return nil }
func (s *stuck) Write([]byte) (int, error) {
	close(s.wrote)
	if s.deadline.IsZero() {
		select {} // for ever
	}
	<-time.After(time.Until(s.deadline))
	return 0, os.ErrDeadlineExceeded
}

// A class that nobody has a handler for is told on the overview and among the classes, and one that only fails.
func TestClassesInTrouble(t *testing.T) {
	s := start(t)
	ctx, now := t.Context(), time.Now()
	s.rdb.ZAdd(ctx, "retry", z(float64(now.Unix()+60), fmt.Sprintf(`{"class":"Lost","jid":"l1","args":[],"queue":"q","error_class":"troupe.UnknownClassError","error_message":"no handler for class \"Lost\"","failed_at":%d}`, now.Unix())))
	s.rdb.HSet(ctx, keys.Counters8(now), "Breaks|p", 5, "Breaks|f", 5, "Fine|p", 5, "Fine|f", 1)
	var text string
	for range 600 { // until the first audit is over
		if text = s.get("/"); strings.Contains(text, "Lost") && strings.Contains(text, "Breaks") {
			break
		}
		<-time.After(100 * time.Millisecond) // a look is every two seconds
	}
	contains(t, "the overview", text, "The class Lost has no handler where its jobs run", `href="/classes/Lost"`, "All 5 runs of the class Breaks within the last hour have failed")
	text = s.get("/classes")
	contains(t, "the classes", text, "no handler", "all fail")
	if strings.Index(text, "Fine") < strings.Index(text, "Lost") {
		t.Error("trouble is not first")
	}
}
