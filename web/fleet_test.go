package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/control"
	"github.com/troupehq/troupe/internal/flight"
	outcomes "github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
)

const fixed = "web-1:9:abc" // the process of the fixture

// fleetFixture adds a process, with an event, a job that it has taken, and a class that has run.
func (s *site) fleetFixture() {
	now, ctx := time.Now(), s.t.Context()
	s.beat(fixed, now, &beat.Pulse{Phase: "running", Capsules: []beat.PulseCapsule{{Name: "default", Busy: 2, Idle: 3}}}, `"a/b.json"`)
	s.record(fixed, flight.Record{At: now, Kind: outcomes.Failed.Kind(), JID: "abc", Class: "Billing::Charge", Text: "no such card"})
	s.fetcher("web-1:9:abc#default.1", "a/b.json", `{"class":"A","jid":"1","args":[]}`)
	s.rdb.Set(ctx, "troupe:lease:web-1:9:abc#default.1", "1", 30*time.Second)
	s.rdb.HSet(ctx, keys.Counters8(now), "Billing::Charge|p", 3, "Billing::Charge|f", 1, "Billing::Charge|ms", 40)
	s.rdb.Set(ctx, keys.Tree(fixed), `[{"path":"launcher","role":"launcher","state":"running","for_ns":1000000000},
{"path":"launcher/default","role":"manager","capsule":"default","state":"running"},
{"path":"launcher/default/processor-0","role":"processor","capsule":"default","state":"busy","job":{"jid":"abc","class":"Billing::Charge","queue":"a/b.json","started":"2026-11-24T12:00:00Z"}},
{"path":"launcher/default/processor-1","role":"processor","capsule":"default","state":"idle"}]`, time.Minute)
	go func() { // it says that it has published its tree, until the test ends
		for ctx.Err() == nil {
			requests, _ := control.Requests(ctx, s.rdb, fixed, time.Second)
			for _, r := range requests {
				_ = control.Answer(ctx, s.rdb, r, control.Reply{Process: fixed, Result: control.Done})
			}
		}
	}()
}

// record has a process tell events.
func (s *site) record(id string, records ...flight.Record) {
	s.t.Helper()
	if err := flight.Write(s.t.Context(), s.rdb, id, records); err != nil {
		s.t.Fatal(err)
	}
}

// fetcher has a capsule take jobs from a queue.
func (s *site) fetcher(id, queue string, jobs ...string) {
	ctx := s.t.Context()
	s.rdb.HSet(ctx, "troupe:places", id, fmt.Sprintf(`{"v":2,"queues":[%q]}`, queue))
	s.rdb.HSet(ctx, "troupe:inprogress:"+id, "!", "1 7", "7.1", queue+" 1795224881000")
	for _, j := range jobs {
		s.rdb.LPush(ctx, "troupe:claim:"+id+":7.1", j)
	}
}

func init() {
	type addresses = map[string]struct {
		path string
		form url.Values
	}
	maps.Copy(pages, addresses{
		"GET /processes":             {path: "/processes"},
		"GET /processes/quiet":       {path: "/processes/quiet"},
		"POST /processes/quiet":      {path: "/processes/quiet"},
		"GET /processes/stop":        {path: "/processes/stop"},
		"POST /processes/stop":       {path: "/processes/stop"},
		"POST /processes/dump":       {path: "/processes/dump"},
		"GET /processes/{id}/quiet":  {path: "/processes/" + fixed + "/quiet"},
		"POST /processes/{id}/quiet": {path: "/processes/" + fixed + "/quiet"},
		"GET /processes/{id}/stop":   {path: "/processes/" + fixed + "/stop"},
		"POST /processes/{id}/stop":  {path: "/processes/" + fixed + "/stop"},
		"POST /processes/{id}/dump":  {path: "/processes/" + fixed + "/dump"},
		"GET /tree":                  {path: "/tree"},
		"GET /tree/{id}":             {path: "/tree/" + fixed},
		"GET /classes":               {path: "/classes"},
		"GET /classes/{class}":       {path: "/classes/Billing::Charge"},
		"GET /events":                {path: "/events"},
		"GET /orphans":               {path: "/orphans"},
		"GET /orphans/rescue":        {path: "/orphans/rescue"},
		"POST /orphans/rescue":       {path: "/orphans/rescue"},
		"GET /stats":                 {path: "/stats"},
		"GET /stats/queues":          {path: "/stats/queues"},
	})
}

func TestEmptyFleet(t *testing.T) {
	s := start(t)
	for path, text := range map[string]string{
		"/processes": "No process runs", "/tree": "No process runs", "/tree?trouble=1": "No process is in trouble", "/classes": "Look further back", "/classes?over=72h": "None in 72h",
		"/classes/A": "Look further back", "/events": "Nothing happened", "/events?kind=x": "No such event", "/orphans": "Nothing is in progress", "/locks": "No lock is held", "/limits": "No limit is defined", "/batches": "No such batch", "/batches?only=stuck": "No such batch",
	} {
		contains(t, path, s.get(path), text)
	}
	_, gone, _ := s.do(http.MethodGet, "/tree/worker-7:977:ab", "")
	contains(t, "a process that is gone", gone, "Its events are kept for three days", `<a href="/events?process=worker-7%3A977%3Aab">See the events about it</a>`)
	hasNot(t, "a process that is gone", gone, "search for it")
	contains(t, "a process sought as a job", s.get("/jobs/worker-7:977:ab"), `<a href="/events?process=worker-7%3A977%3Aab">See the events about it</a>`)
	hasNot(t, "a job that is gone", s.get("/jobs/nosuchjob"), "See the events about it")
	for path, want := range map[string]int{"/tree/none": 404, "/tree?by=x": 400, "/classes?over=x": 400, "/events?before=x": 400, "/processes/none/stop": 404} {
		if status, text, _ := s.do(http.MethodGet, path, ""); status != want {
			t.Errorf("%s: %d, expected %d\n%s", path, status, want, text)
		}
	}
}

// Processes are told what people ask for, and those of other programs say that they refuse.
func TestOrders(t *testing.T) {
	s := start(t)
	now, ctx := time.Now(), t.Context()
	s.beat("a:1:ruby", now, nil, `"default"`)
	s.beat("b:1:go", now, &beat.Pulse{Phase: "running"}, `"default"`)
	s.beat("c:1:part", now, &beat.Pulse{Phase: "running"}, `"default"`)
	s.rdb.HSet(ctx, "c:1:part", "info", `{"hostname":"c","identity":"c:1:part","concurrency":5,"queues":[],"embedded":true}`)
	s.beat("d:1:gone", now.Add(-2*time.Minute), &beat.Pulse{Phase: "running", Capsules: []beat.PulseCapsule{{Busy: 4}}}, `"default"`)
	s.rdb.Del(ctx, "d:1:gone")
	text := s.get("/processes")
	contains(t, "the page", text, "3 processes, 2 of troupe and 1 of Ruby", "a part of another program: quiet and stop that", `href="/processes/b:1:go/quiet"`)
	hasNot(t, "the page", text, `href="/processes/c:1:part/quiet"`, `href="/processes/d:1:gone/stop"`)
	if strings.Index(text, "d:1:gone") > strings.Index(text, "a:1:ruby") {
		t.Error("trouble is not first")
	}
	hasNot(t, "a viewer's", s.get("/processes", "Role", "viewer"), "<button class=\"small\"", "Stop")
	hasNot(t, "an operator's", s.get("/processes", "Role", "operator"), "Stop")

	contains(t, "before quiet", s.get("/processes/b:1:go/quiet", "Role", "operator"), "there is no way back but a restart", `action="/processes/b:1:go/quiet"`)
	_, text = s.post("/processes/b:1:go/quiet", url.Values{}, "Role", "operator")
	contains(t, "after quiet", text, "b:1:go takes no new jobs.")
	if got := s.rdb.LRange(ctx, keys.Signals("b:1:go"), 0, -1).Val(); fmt.Sprint(got) != "[TSTP]" || s.rdb.LLen(ctx, keys.Requests("b:1:go")).Val() != 1 {
		t.Errorf("it is told %v", got)
	}
	_, text = s.post("/processes/a:1:ruby/dump", url.Values{}, "Role", "operator")
	contains(t, "after dump", text, "a:1:ruby writes what", "Processes of Ruby hear of it at their next beat")
	if status, text := s.post("/processes/c:1:part/stop", url.Values{}); status != http.StatusConflict {
		t.Errorf("an embedded one: %d %s", status, text)
	}
	contains(t, "the question", s.get("/processes/stop"), "Stop all 3 processes?", "6 jobs run there")
	_, text = s.post("/processes/stop", url.Values{"count": {"3"}})
	contains(t, "after stop", text, "2 processes stop.", "Not so c:1:part: parts of other programs")
	for id, want := range map[string]string{"a:1:ruby": "[TERM TTIN]", "b:1:go": "[TERM TSTP]", "c:1:part": "[]"} {
		if got := s.rdb.LRange(ctx, keys.Signals(id), 0, -1).Val(); fmt.Sprint(got) != want {
			t.Errorf("%s is told %v, expected %s", id, got, want)
		}
	}
	for i := range 120 {
		s.beat(fmt.Sprintf("many:%d:x", i), now, nil, "")
	}
	if status, _ := s.post("/processes/stop", url.Values{"count": {"123"}}, "Accept", "application/json"); status != http.StatusBadRequest {
		t.Errorf("many, not confirmed: %d", status)
	}
}

// The fleet has a row a process, with trouble in words: what does not run, a storm with its cause
// once, and what becomes of the jobs of the dead.
func TestFleetTree(t *testing.T) {
	s := start(t)
	now, ctx := time.Now(), t.Context()
	for i := range 6 {
		p := &beat.Pulse{Phase: "running", Version: "2.3", Capsules: []beat.PulseCapsule{{Name: "default", Busy: 97, Idle: 2, Down: 1}, {Name: "mail", Idle: 5}}, Actors: map[string]string{}}
		if i < 3 {
			p.Recent, p.Restarts, p.Failure = 7, 40, fmt.Sprintf("default/processor-%d: no card %d <b>", i, i*1000)
		}
		s.beat(fmt.Sprintf("h%d:1:x", i), now, p, `"default"`)
	}
	s.beat("fine:1:x", now, &beat.Pulse{Phase: "running", Capsules: []beat.PulseCapsule{{Name: "default", Busy: 5}}, Oldest: float64(now.Unix() - 90)}, `"default"`)
	s.beat("ruby:1:x", now, nil, `"default"`)
	s.beat("poll:1:x", now, &beat.Pulse{Phase: "running", Actors: map[string]string{"poller": "restarting"}, Unresponsive: 2, Fencings: 1}, `"default"`)
	s.record("h1:1:x", flight.Record{At: now.Add(-time.Minute), Kind: flight.Crashed, Actor: "launcher/default/processor-8", Text: "no card 17 <b>"})
	for id, age := range map[string]time.Duration{"leased:1:x": 40 * time.Second, "lost:1:x": 2 * time.Minute, "saved:1:x": 2 * time.Minute} {
		s.beat(id, now.Add(-age), &beat.Pulse{Phase: "running"}, `"default"`)
	}
	s.rdb.Del(ctx, "lost:1:x", "saved:1:x")
	s.fetcher("leased:1:x#default.1", "default", `{"jid":"1"}`, `{"jid":"2"}`)
	s.rdb.Set(ctx, "troupe:lease:leased:1:x#default.1", "1", 5500*time.Millisecond)
	s.record("fine:1:x", flight.Record{At: now, Kind: flight.Rescued, Text: "14 jobs of dead processes put back: saved:1:x"})

	text := s.get("/tree")
	contains(t, "the page", text, "The same failure in 3 of 9 processes since", "first in h1:1:x", "21 restarts within a minute. The last failure: default/processor-0: no card 0 &lt;b&gt;",
		"97 busy, 1 down, 2 idle", "+7", "no tree", "poller restarting", "2 unresponsive", "fenced 1×", "1m ago", "Last beat 4", "2 jobs go back in ", "nothing of it is in progress any more", "rescued by fine:1:x at ")
	harness.Equal(t, "banners", strings.Count(text, "The same failure"), 1)
	if strings.Index(text, "/tree/ruby:1:x") < strings.Index(text, "/tree/saved:1:x") {
		t.Error("trouble is not first")
	}
	hasNot(t, "trouble", s.get("/tree?trouble=1"), `"/tree/fine:1:x"`, `"/tree/ruby:1:x"`)
	contains(t, "by host", s.get("/tree?by=host"), `<h2 class="group">h3 `)
	var data fleetPage
	if err := json.Unmarshal(s.data("/tree.json?by=tag"), &data); err != nil || len(data.Groups) != 2 || data.Shown != 12 || data.Groups[1].Name != "shop" && data.Groups[0].Name != "shop" {
		t.Errorf("by tag: %v, %+v", err, data)
	}
}

// fiftyProcesses are 50 with 100 processors each, some in trouble.
func (s *site) fiftyProcesses() {
	for i := range 50 {
		p := &beat.Pulse{
			Phase: "running", Version: "0.9.1", Tag: "shop", Restarts: i, Oldest: float64(time.Now().Unix() - int64(i)),
			Capsules: []beat.PulseCapsule{{Name: "default", Busy: 60, Idle: 20}, {Name: "mailers", Busy: 5, Idle: 5}, {Name: "ledger", Idle: 10}},
		}
		if i%10 == 0 {
			p.Recent, p.Capsules[0].Down, p.Actors = 3, 2, map[string]string{"poller": "restarting"}
			p.Failure = "default/processor-17: dial tcp 10.1.2.3:5432: connect: connection refused, after three tries of a second each"
		}
		s.beat(fmt.Sprintf("worker-%d.eu-west-1.example.com:%d:0123456789ab", i, 1000+i), time.Now(), p, `"default","mailers","ledger"`)
	}
}

// A fleet of 5,000 processors is a page of at most 100 KB.
func TestFleetTreeIsSmall(t *testing.T) {
	s := start(t)
	s.fiftyProcesses()
	text := s.get("/tree")
	if n := strings.Count(text, "worker-"); len(text) > 100<<10 || n < 50 {
		t.Errorf("%d bytes, %d processes", len(text), n)
	}
}

func BenchmarkFleetTree(b *testing.B) {
	s := start(b)
	s.fiftyProcesses()
	s.get("/tree")
	for b.Loop() {
		s.get("/tree")
	}
}

// What several look at together is looked at once.
func TestTogether(t *testing.T) {
	var s shared
	var looks int
	ctx, open, all := t.Context(), make(chan struct{}), make(chan int)
	for range 5 {
		go func() {
			n, _ := together(ctx, &s, "x", time.Hour, func(context.Context) (int, error) { looks++; <-open; return looks, nil })
			all <- n
		}()
	}
	close(open)
	for range 5 {
		harness.Equal(t, "look", <-all, 1)
	}
	wrong := errors.New("no")
	if _, err := together(ctx, &s, "y", time.Hour, func(context.Context) (int, error) { return 0, wrong }); err != wrong { //nolint:errorlint // the same
		t.Error(err)
	}
	if n, err := together(ctx, &s, "x", 0, func(context.Context) (int, error) { return 7, nil }); n != 7 || err != nil {
		t.Errorf("a later look: %d, %v", n, err)
	}
}

// A group of the tree is told by what its processes have in common.
func TestGroupsAreTold(t *testing.T) {
	s := start(t)
	ctx := t.Context()
	for id, version := range map[string]string{"a:1:aa": "7.3.9", "b:2:bb": "8.1.7", "c:3:cc": "8.1.7"} {
		s.rdb.SAdd(ctx, "processes", id)
		s.rdb.HSet(ctx, id, "info", `{"hostname":"h&1","pid":1,"identity":"`+id+`","version":"`+version+`","concurrency":5,"queues":["default"]}`, "busy", 1, "beat", time.Now().Unix(), "quiet", "false")
	}
	contains(t, "the tree", s.get("/tree?by=version"), `href="/processes/quiet?by=version&amp;name=8.1.7"`, `href="/processes/stop?by=version&amp;name=7.3.9"`, `action="/processes/dump?by=version&amp;name=8.1.7"`)
	hasNot(t, "the tree of a viewer", s.get("/tree?by=version", "Role", "viewer"), "/processes/quiet?")
	contains(t, "hosts", s.get("/tree?by=host"), `href="/processes/quiet?by=host&amp;name=c"`)
	path := "/processes/quiet?by=version&name=8.1.7"
	contains(t, "the question", s.get(path), "Quiet 2 processes of the version 8.1.7?", "2 jobs run there", `action="/processes/quiet?by=version&amp;name=8.1.7"`)
	_, text := s.post(path, url.Values{"count": {"2"}})
	contains(t, "the answer", text, "2 processes take no new jobs.")
	if n := s.rdb.Exists(ctx, "a:1:aa-signals").Val(); n != 0 || s.rdb.Exists(ctx, "b:2:bb-signals", "c:3:cc-signals").Val() != 2 {
		t.Errorf("the other version was told: %d", n)
	}
	for path, want := range map[string]int{"/processes/stop?by=version&name=9": http.StatusNotFound, "/processes/stop?by=shoe&name=9": http.StatusBadRequest} {
		if status, _ := s.post(path, url.Values{"count": {"3"}}); status != want {
			t.Errorf("%s: %d", path, status)
		}
	}
}
