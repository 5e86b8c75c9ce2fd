package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/flight"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// A crash in a daemon is told to an open page, which then shows the restart with its cause. A
// read-only dashboard has nothing written.
func TestCrash(t *testing.T) {
	s := start(t)
	closed := start(t, func(o *Options) { o.Redis, o.ReadOnly = s.rdb, true })
	k := testkit.Start(t, actors.Config{Redis: s.rdb, Queues: actors.Weighted{"default": 1}, Concurrency: 3})
	id := k.Identity()
	for { // until it has beaten
		snap, next := s.h.sampler.touch()
		if snap != nil && snap.process(id) != nil {
			break
		}
		<-next
	}
	contains(t, "the tree", s.get("/tree/"+id), `role="treegrid"`, "poller", "heartbeat", "3 idle")
	changes := func(path string) *bufio.Scanner {
		r := harness.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, s.base+"/live?topic="+path, nil))(t)
		answer := harness.Must(s.Do(r))(t)
		t.Cleanup(func() { _ = answer.Body.Close() })
		lines := bufio.NewScanner(answer.Body)
		lines.Scan() // it is open
		return lines
	}
	await := func(lines *bufio.Scanner, path string, parts ...string) {
		t.Helper()
		for text := ""; ; {
			if text = s.get(path); hasAll(text, parts) {
				return
			}
			for lines.Text() != "event: change" && lines.Scan() {
				continue
			}
			if lines.Err() != nil || !lines.Scan() {
				t.Fatalf("%v: no change brings %q:\n%s", lines.Err(), parts, text)
			}
		}
	}
	tree, all := changes("tree:"+id), changes("fleet")
	k.Crash("launcher/poller", errors.New("no <luck>"))
	await(tree, "/tree/"+id, "crashed: no &lt;luck&gt;; restarted by the strategy of launcher", `<b class="plus">+1</b>`)
	await(all, "/tree", "poller: no &lt;luck&gt;", `<b class="plus">+1</b>`)
	contains(t, "only trouble", s.get("/tree/"+id+"?trouble=1"), "launcher/poller")
	hasNot(t, "only trouble", s.get("/tree/"+id+"?trouble=1"), "launcher/heartbeat")
	contains(t, "a search", s.get("/tree/"+id+"?q=PROCESSOR-2"), "launcher/default/processor-2")

	k.Stop()
	s.rdb.FlushDB(t.Context())
	s.beat("x:1:y", time.Now(), &beat.Pulse{Phase: "running"}, "")
	closed.h.sampler.look()
	contains(t, "read-only", closed.get("/tree/x:1:y"), "No tree any more")
	if s.rdb.Exists(t.Context(), keys.Requests("x:1:y")).Val() != 0 {
		t.Error("a read-only dashboard asks processes")
	}
}

func hasAll(text string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}

// The tree of one process says what happened, in words.
func TestTreeInWords(t *testing.T) {
	const id = "a:1:x"
	now := time.Now()
	tree := actors.Tree{
		{Path: "launcher", Role: "launcher", State: actors.StateRunning, For: time.Hour, Budget: &actors.Budget{Used: 17, Most: 20, Period: time.Minute}},
		{Path: "launcher/poller", Role: "poller", State: actors.StateRestarting, Note: "in 3.2s", Restarts: 17, LastFailure: "boom\ngoroutine 1 [running]:\nmain.main()"},
		{Path: "launcher/default", Role: "manager", Capsule: "default", State: actors.StateRunning, Unresponsive: []actors.Unresponsive{
			{JobRef: actors.JobRef{JID: "j1", Class: "Slow::Job", Queue: "default", Started: now.Add(-time.Hour)}, Since: now.Add(-time.Minute), Cause: "timeout of 30 s", Stack: "goroutine 9\nslow.go:7", Replaced: true},
		}},
		{Path: "launcher/default/fetcher", Role: "fetcher", Capsule: "default", State: actors.StateRunning},
	}
	for i := range 100 {
		n := actors.Node{Path: fmt.Sprintf("launcher/default/processor-%d", i), Role: "processor", Capsule: "default", State: actors.StateBusy, Job: &actors.JobRef{JID: fmt.Sprint("job", i), Class: "Quick", Started: now}}
		switch {
		case i == 42:
			n.State, n.Job, n.Restarts = actors.StateCrashed, nil, 3
		case i > 97:
			n.State, n.Job = actors.StateIdle, nil
		}
		tree = append(tree, n)
	}
	s := start(t, func(o *Options) { o.Trees = func() map[string]actors.Tree { return map[string]actors.Tree{id: tree} } })
	s.beat(id, now, &beat.Pulse{Phase: "running", Recent: 9, Failure: "poller: boom", Fencings: 1}, `"default"`)
	s.record(id,
		flight.Record{At: now.Add(-time.Hour), Kind: flight.Fenced, Capsule: "default", Text: "14 jobs cancelled, 2 results refused"},
		flight.Record{At: now.Add(-2 * time.Minute), Kind: flight.Restarted, Actor: "launcher/default/fetcher"},
		flight.Record{At: now.Add(-9 * time.Second), Kind: flight.Crashed, Actor: "launcher/poller", Text: "boom"},
		flight.Record{At: now.Add(-8 * time.Second), Kind: flight.Restarted, Actor: "launcher/poller", Text: "restart 17"},
		flight.Record{At: now.Add(-7 * time.Second), Kind: flight.Restarted, Actor: "launcher/default/processor-7", Text: "restart 1"},
		flight.Record{At: now.Add(-6 * time.Second), Kind: flight.Escalated, Actor: "launcher/default", Text: "20 restarts in 1m0s"})
	text := s.get("/tree/" + id)
	contains(t, "the page", text,
		"Actors of shop (a:1:x) crash again and again since", "9 restarts within a minute. The last failure: poller: boom.", "another process took 14 jobs; 2 results refused",
		"budget 17/20 in 60s", "97 busy, 2 idle, 1 crashed", "in 3.2s", "crashed: boom; restarted by the strategy of launcher", "<summary>Stack</summary>", "main.main()", "processor-42", "processor-7<",
		"Slow::Job", "timeout of 30 s", "Its slot is another job", "slow.go:7", "gave up and escalated: 20 restarts in 1m0s", "a failure of launcher/default has escalated to it", "96 processors at work", "fetcher")
	if n := strings.Count(text, "<tr aria-level="); n != 6 { // four, and two of the processors
		t.Errorf("%d rows", n)
	}
	contains(t, "a job's", s.get("/tree/"+id+"?q=JOB55"), "launcher/default/processor-55")
	contains(t, "nothing", s.get("/tree/"+id+"?q=nothing"), "No actor is like that")
	s.beat("ruby:1:x", now, nil, `"default"`)
	s.rdb.HSet(t.Context(), "ruby:1:x", "info", `{"hostname":"h","pid":1,"identity":"ruby:1:x","concurrency":5,"queues":["default"],"started_at":1795000000}`)
	s.h.sampler.look()
	contains(t, "Ruby's", s.get("/tree/ruby:1:x"), "No tree", "it has threads",
		`<dt>Started</dt><dd><time datetime="2026-11-18T11:06:40Z" title="2026-11-18 11:06:40.000 UTC">2026-11-18 11:06:40 UTC</time>`)
}

// Of what a trees' pages are renewed at, what they show is a part.
func TestTreeState(t *testing.T) {
	n := actors.Node{Path: "launcher", State: actors.StateRunning}
	tree := actors.Tree{n}
	s := start(t, func(o *Options) {
		o.Trees = func() map[string]actors.Tree { return map[string]actors.Tree{fixed: tree} }
	})
	s.fleetFixture()
	seen := map[uint64]bool{}
	for _, change := range []func(){
		func() {}, func() { n.State = actors.StateCrashed }, func() { n.Restarts++ }, func() { n.Note = "in 1s" }, func() { n.Budget = &actors.Budget{Used: 1, Most: 20} }, func() { n.Job = &actors.JobRef{JID: "x"} },
		func() { s.record(fixed, flight.Record{At: time.Now(), Kind: flight.Restarted, Actor: "launcher"}) },
	} {
		change()
		tree = actors.Tree{n}
		s.h.looks = shared{}
		s.h.sampler.look()
		r := &request{Handler: s.h, Request: (&http.Request{}).WithContext(context.Background()), user: User{Role: Admin}}
		snap := harness.Must(s.h.sampler.snapshot(t.Context()))(t)
		now := r.state(snap, "tree:"+fixed)
		if seen[now] || r.state(snap, "tree:none") == now {
			t.Errorf("change %d is not seen", len(seen))
		}
		seen[now] = true
	}
}
