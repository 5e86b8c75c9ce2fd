package web

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/beat"
	outcomes "github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/runs"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// rubyRuns writes what a Ruby process does that runs jobs, of Sidekiq 6.
func (s *site) rubyRuns(jids ...string) {
	ctx, id := s.t.Context(), "ruby:1:abc"
	s.rdb.SAdd(ctx, "processes", id)
	s.rdb.HSet(ctx, id, "info", `{"hostname":"ruby","pid":1,"identity":"ruby:1:abc","concurrency":5,"queues":["default"],"labels":[],"started_at":1795000000}`, "busy", len(jids), "beat", strconv.FormatInt(time.Now().Unix(), 10), "quiet", "false")
	for i, jid := range jids {
		s.rdb.HSet(ctx, id+":workers", fmt.Sprintf("tid%d", i), fmt.Sprintf(`{"queue":"default","run_at":%d,"payload":"{\"class\":\"Ruby::Work\",\"args\":[12345678901234567890],\"jid\":\"%s\",\"queue\":\"default\"}"}`, time.Now().Unix()-60, jid))
	}
}

func TestRunning(t *testing.T) {
	s := start(t)
	contains(t, "without processes", s.get("/running"), "Nothing runs", "No process lives")
	s.rubyRuns("plain", "iterable")
	s.rdb.HSet(t.Context(), "it-iterable", "ex", 2, "c", `{"token":"s3cr3t","at":12345678901234567890}`)
	m := beat.NewMetrics("ruby:1:abc", beat.Dialect8, func() map[string]runs.Totals { return nil })
	m.CountAs("Ruby::Work", outcomes.Done, 40*time.Millisecond)
	harness.OK(t, m.Flush(t.Context(), s.rdb, time.Now().Add(-time.Minute)))
	s.h.looks.forget("running")
	page := s.get("/running")
	contains(t, "beside its class", page, "p95 ≤ 45ms", "above p95")
	hasNot(t, "a class that never ran", page, "<nil>")
	contains(t, "running", page, "Ruby::Work", "12345678901234567890", "tid0", "ruby:1:abc", "1m ago", `{&#34;token&#34;:&#34;[masked]&#34;,&#34;at&#34;:12345678901234567890}`, "/jobs/plain/cancel")
	hasNot(t, "a viewer's", s.get("/running", "Role", "viewer"), "/cancel")
	found := s.get("/search?q=Ruby")
	contains(t, "a search", found, "2 runs, 0s, cursor {&#34;token&#34;:&#34;[masked]&#34;")
	hasNot(t, "a search", found, "s3cr3t")

	_, text := s.post("/jobs/plain/cancel", url.Values{}, "Role", "operator")
	contains(t, "cancel of a plain one", text, "The job plain goes on", "a Ruby process can only cancel iterable jobs")
	_, text = s.post("/jobs/iterable/cancel", url.Values{"back": {"job"}})
	contains(t, "cancel of an iterable one", text, "is asked to end", "at its next look", "It runs in ruby:1:abc")
	if s.rdb.HGet(t.Context(), "it-iterable", "cancelled").Val() == "" {
		t.Error("it is not cancelled")
	}
	_, text = s.post("/jobs/none/cancel", url.Values{})
	contains(t, "cancel of none", text, "runs nowhere any more", "Nothing was cancelled")
	contains(t, "search", s.get("/search?q=ruby::w"), "2 found", "plain")
}

// Jobs of a daemon: running, cancelled, unresponsive.
func TestRunningInADaemon(t *testing.T) {
	s := start(t)
	release := make(chan struct{})
	var r troupe.Registry
	troupe.HandleClass(&r, "Ignores", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { <-release; return nil }))
	rdb := redis.NewClient(s.rdb.Options())
	t.Cleanup(func() { _ = rdb.Close() })
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Concurrency: 2, Grace: 20 * time.Millisecond})
	t.Cleanup(func() { close(release) })
	jid := harness.Must(client.New(s.rdb).PushClass(t.Context(), "Ignores", []any{1}))(t)
	until := func(path string, what ...string) {
		t.Helper()
		k.Await(strings.Join(what, " and "), func() bool {
			text := s.get(path)
			for _, w := range what {
				if !strings.Contains(text, w) {
					return false
				}
			}
			return true
		})
	}
	until("/running", jid, "Ignores", "1 job in 2 slots")
	hasNot(t, "of a class that never ended", s.get("/running"), "p95")
	until("/jobs/"+jid, ">Cancel</button>", "<dt>Process</dt>")
	_, text := s.post("/jobs/"+jid+"/cancel", url.Values{})
	contains(t, "cancelled", text, "is cancelled in "+k.Daemon.Identity())
	until("/running", "unresponsive", "cancelled by an operator")
	until("/jobs/"+jid, "and it does not end", "job cancelled", "<summary>Stack</summary>", "running_test.go", `<a href="/tree/`+k.Daemon.Identity()+`">`)
	for _, path := range []string{"/running", "/jobs/" + jid} {
		hasNot(t, path+", cancelled already", s.get(path), ">Cancel</button>")
	}
}
