package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/ops"
	"github.com/troupehq/troupe/testkit"
)

// view is what is compared of an actor, whoever shows it.
func view(n actors.Node) string {
	text := fmt.Sprintf("%s %s restarts %d %s", n.Path, n.State, n.Restarts, n.LastFailure)
	for _, u := range n.Unresponsive {
		text += " unresponsive " + u.JID
	}
	return text
}

// troubled are the views of the actors that are not as they should be.
func troubled(tree actors.Tree) (all []string) {
	for _, n := range tree {
		fine := n.State == actors.StateRunning || n.State == actors.StateIdle || n.State == actors.StateBusy
		if !fine || n.Restarts > 0 || len(n.Unresponsive) > 0 {
			all = append(all, view(n))
		}
	}
	return all
}

// asked is what a path of the listener of ops answers.
func asked(t *testing.T, d *actors.Daemon, path string) (code int, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	ops.Handler(d).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// scraped is the sum of the values of a metric over the series that have a label.
func scraped(t *testing.T, d *actors.Daemon, metric, label string) (sum float64) {
	t.Helper()
	code, body := asked(t, d, "/metrics")
	if code != http.StatusOK || !strings.Contains(body, "\ntroupe_"+metric) {
		t.Fatalf("%d, without %s: %s", code, metric, body)
	}
	for line := range strings.Lines(body) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, labels, _ := strings.Cut(series, "{")
		if v, err := strconv.ParseFloat(value, 64); err == nil && name == "troupe_"+metric && strings.Contains(labels, label) {
			sum += v
		}
	}
	return sum
}

// processOf is a line of ps --json.
type processOf struct {
	Identity, Phase                 string
	Restarts, Unresponsive, Restart *int
	Recent                          *int `json:"restarts_1m"`
}

// An actor that is held or suspended, a storm of restarts and an unresponsive job are the same in the
// testkit, in the metrics, in the JSON and in the text of the commands.
func TestTroubleIsSeenAlike(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	release := make(chan struct{})
	var r troupe.Registry
	troupe.HandleClass(&r, "Ignores", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { <-release; return nil }))
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Concurrency: 3, Grace: 10 * time.Millisecond})
	t.Cleanup(func() { close(release) })
	see := func(words ...string) said { return call(t.Context(), append(words, "--redis", url)...) }
	if got := see("ps", "--trouble"); got.code != 0 || got.err != "troupe: no process is in trouble\n" {
		t.Errorf("without trouble: %s", got)
	}
	if got := see("tree", "--trouble", "--json"); got.code != 0 || got.out != "" {
		t.Errorf("without trouble: %s", got)
	}
	const processor = "launcher/default/processor-"
	alike := func(what string, want ...string) {
		t.Helper()
		k.Await(what, func() bool {
			kit := troubled(k.Tree())
			for _, w := range want {
				if !slices.ContainsFunc(kit, func(v string) bool { return strings.HasPrefix(v, w) }) {
					return false
				}
			}
			got := see("tree", "--trouble", "--json")
			var one struct {
				Identity string
				Tree     actors.Tree
			}
			if err := json.Unmarshal([]byte(got.out), &one); err != nil || one.Identity != k.Identity() {
				t.Fatalf("%v: %s", err, got)
			}
			var views []string
			for _, n := range one.Tree {
				views = append(views, view(n))
			}
			text := see("tree", k.Identity(), "--trouble").out
			var p processOf
			_ = json.Unmarshal([]byte(see("ps", "--trouble", "--json").out), &p)
			line := see("ps", "--trouble").out
			now := troubled(k.Tree())
			if !slices.Equal(kit, now) || !slices.Equal(views, now) { // it was changing just then
				return false
			}
			restarts, unresponsive, states := 0, 0, map[actors.State]int{}
			for _, n := range k.Tree() {
				restarts, unresponsive = restarts+n.Restarts, unresponsive+len(n.Unresponsive)
				if strings.HasPrefix(n.Path, processor) {
					states[n.State]++
				}
			}
			for _, n := range one.Tree {
				name := n.Path[strings.LastIndexByte(n.Path, '/')+1:]
				if !strings.Contains(text, name+" ") || !strings.Contains(text, " "+string(n.State)) || n.Restarts > 0 && !strings.Contains(text, fmt.Sprintf("restarts %d", n.Restarts)) {
					t.Errorf("%s: the text is\n%s\nexpected %s", what, text, view(n))
				}
			}
			if p.Identity != k.Identity() || *p.Restarts != restarts || *p.Unresponsive != unresponsive || !strings.HasPrefix(line, k.Identity()+"\t") || !strings.Contains(line, fmt.Sprintf("\t%d\t%d\t", restarts, unresponsive)) {
				t.Errorf("%s: ps tells %+v and %q, the tree %d restarts and %d unresponsive jobs", what, p, line, restarts, unresponsive)
			}
			if r, u := scraped(t, k.Daemon, "actor_restarts_total", ""), scraped(t, k.Daemon, "unresponsive_jobs", ""); int(r) != restarts || int(u) != unresponsive {
				t.Errorf("%s: the metrics tell %v restarts and %v unresponsive jobs, the tree %d and %d", what, r, u, restarts, unresponsive)
			}
			for _, state := range []actors.State{actors.StateHeld, actors.StateSuspended, actors.StateIdle} {
				if got := scraped(t, k.Daemon, "processors", fmt.Sprintf("state=%q", state)); int(got) != states[state] {
					t.Errorf("%s: the metrics tell %v processors %s, the tree %d", what, got, state, states[state])
				}
			}
			if code, body := asked(t, k.Daemon, "/livez"); code != http.StatusOK { // it is so from a minute on
				t.Errorf("%s: %d, %s", what, code, body)
			}
			return true
		})
	}
	k.Hold(processor + "0")
	k.Suspend(processor + "1")
	alike("a wedged actor", processor+"0 held", processor+"1 suspended")
	k.Release(processor + "0")
	k.Resume(processor + "1")
	for n := range 4 {
		k.Await("it runs", func() bool { return k.Tree().Find(processor+"2").State == actors.StateIdle })
		k.Crash(processor+"2", errors.New("boom"))
		k.Await("it is restarted", func() bool { return k.Tree().Find(processor+"2").Restarts == n+1 })
	}
	k.Await("it runs", func() bool { return k.Tree().Find(processor+"2").State == actors.StateIdle })
	alike("a storm of restarts", processor+"2 idle restarts 4")
	jid := k.PushClass("Ignores", nil)
	k.Await("it runs", func() bool { return k.Stats().Busy == 1 })
	if got := see("jobs", "cancel", jid); got.out != "cancelled "+jid+": it runs in "+k.Identity()+" and is asked to end\n" {
		t.Error(got)
	}
	alike("an unresponsive job", "launcher/default running restarts 0  unresponsive "+jid)
	if got := see("explain", jid); !strings.Contains(got.out, "Its context was cancelled") || !strings.Contains(got.out, "It keeps its slot.") {
		t.Error(got)
	}
	for kind, words := range map[string]string{"crashed": "boom", "restarted": processor + "2", "cancelled": jid} {
		if got := see("events", "--kind", kind); !strings.Contains(got.out, words) {
			t.Errorf("events of the kind %s: %s", kind, got)
		}
	}
}

// When Redis is away every command says so, with its address and without its password, soon and with
// exit code 1; the daemon waits for it. When Redis answers nothing it is the same.
func TestADeadRedisIsSeenAlike(t *testing.T) {
	t.Parallel()
	s := testkit.NewServer(t)
	opt := s.Options()
	if err := s.Client.ConfigSet(t.Context(), "requirepass", "hunter2").Err(); err != nil {
		t.Fatal(err)
	}
	url := "redis://:hunter2@" + opt.Addr + "/0?read_timeout=300ms&max_retries=1&dial_timeout=300ms"
	file := export(t)
	all := func(what string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var wait sync.WaitGroup
		for _, path := range slices.Sorted(maps.Keys(lines)) {
			words := append(wordsOf(lines[path], file), "--redis", url)
			if path == "jobs import" {
				words = append(words, "--yes")
			}
			wait.Go(func() {
				got := call(ctx, words...)
				if got.code != 1 || got.out != "" && path != "jobs import" || !strings.Contains(got.err, "(redis redis://***@"+opt.Addr+"/0)") || strings.Contains(got.out+got.err, "hunter2") {
					t.Errorf("%s: %q: %s", what, words, got)
				}
			})
		}
		wait.Wait()
	}
	s.Pause()
	all("it answers nothing")
	s.Resume()
	s.Kill()
	all("it is dead")
}

// The daemon of a Redis that has died tells it, too.
func TestADaemonTellsThatRedisIsAway(t *testing.T) {
	t.Parallel()
	s := testkit.NewServer(t)
	k := testkit.Start(t, actors.Config{Redis: s.Client, Registry: new(troupe.Registry), Concurrency: 1})
	url := s.URL(0)
	s.Kill()
	k.Await("it knows", func() bool { return k.Stats().RedisAway })
	harness.Equal(t, "the metrics tell redis_up", scraped(t, k.Daemon, "redis_up", ""), 0)
	k.Await("it is not ready", func() bool {
		code, body := asked(t, k.Daemon, "/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(body, `"redis_away"`)
	})
	if code, body := asked(t, k.Daemon, "/livez"); code != http.StatusOK {
		t.Errorf("not alive: %d, %s", code, body)
	}
	if got := call(t.Context(), "tree", k.Identity(), "--redis", url); got.code != 1 || !strings.Contains(got.err, "connection refused") {
		t.Error(got)
	}
	s.Restart()
	k.Await("it is back", func() bool { return !k.Stats().RedisAway })
	k.Await("it is ready", func() bool {
		code, _ := asked(t, k.Daemon, "/readyz")
		return code == http.StatusOK && scraped(t, k.Daemon, "redis_up", "") == 1
	})
	k.Await("it is listed", func() bool {
		return strings.HasPrefix(call(t.Context(), "ps", "--redis", url).out, k.Identity()+"\t")
	})
}
