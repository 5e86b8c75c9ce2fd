package conformance

import (
	"strings"
	"testing"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

func TestCheck29TheButtonsOfThePagesActOnThatEntryOnly(t *testing.T) {
	s := newSite(t)
	kit := s.work(on(2, "default"))
	type press struct{ set, page, button string }
	type pair struct{ jids, raws [2]string }
	pairs := map[press]pair{}
	for _, p := range []press{
		{"retry", "/retries", "retry"}, {"retry", "/retries", "kill"}, {"retry", "/retries", "delete"},
		{"retry", "/retries/", "retry"}, {"retry", "/retries/", "delete"},
		{"schedule", "/scheduled", "add_to_queue"}, {"schedule", "/scheduled", "delete"},
		{"schedule", "/scheduled/", "add_to_queue"}, {"schedule", "/scheduled/", "delete"},
		{"dead", "/morgue", "retry"}, {"dead", "/morgue", "delete"},
		{"dead", "/morgue/", "retry"}, {"dead", "/morgue/", "delete"},
	} {
		jids, raws := s.pair(p.set)
		pairs[p] = pair{jids, raws}
	}
	kit.Stop()
	b := s.browser()
	for p, pair := range pairs {
		path, what := p.page, p.page+" "+p.button
		if strings.HasSuffix(path, "/") { // the page of the entry
			path += key(s, p.set, pair.jids[0])
		}
		b.press(path, p.button, pair.jids[0])
		if left, _ := s.find(p.set, pair.jids[0]); left != "" {
			t.Errorf("%s: still there: %s", what, left)
		}
		if left, _ := s.find(p.set, pair.jids[1]); left != pair.raws[1] {
			t.Errorf("%s: the other entry is %q", what, left)
		}
		s.acted(what, p.button, pair.jids[0], pair.raws[0])
	}
}

func TestCheck29TheButtonsForAllEntriesWork(t *testing.T) {
	s := newSite(t)
	kit := s.work(on(2, "default"))
	for range 3 {
		s.push("Fail", `[]`)
		s.push("Fail", `[]`, client.Retry(0))
	}
	s.awaitSize("retry", 3)
	s.awaitSize("dead", 3)
	kit.Stop()
	b := s.browser()
	size := func(want rubyStats) {
		t.Helper()
		got := s.stats()
		got.Processed, got.Failed = 0, 0
		harness.Equal(t, "Ruby's Stats", got, want)
	}
	b.press("/retries", "kill", "all/kill")
	size(rubyStats{Dead: 6})
	b.press("/morgue", "retry", "all/retry")
	size(rubyStats{Enqueued: 6})
	kit = s.work(on(2, "default")) // three are dead again, three wait for a retry
	s.awaitSize("retry", 3)
	s.awaitSize("dead", 3)
	kit.Stop()
	b.press("/retries", "retry", "all/retry")
	size(rubyStats{Enqueued: 3, Dead: 3})
	b.press("/morgue", "delete", "all/delete")
	size(rubyStats{Enqueued: 3})
	b.press("/queues", "delete", "/queues/default")
	size(rubyStats{})
	if s.rdb.Exists(t.Context(), "queues", "retry", "dead", "queue:default").Val() != 0 {
		t.Errorf("left: %v", s.rdb.Keys(t.Context(), "*").Val())
	}
}

func TestCheck30TheDeleteButtonOfAQueueRemovesThatGoJobOnly(t *testing.T) {
	s := newSite(t)
	var jids []string
	for range 3 {
		jids = append(jids, s.push("Record", `["<b>&\"'é</b>`+"\u2028"+`\u0000\n😀",100.0,1]`))
	}
	before := s.queue("default")
	s.browser().press("/queues/default", "delete", jids[1])
	if after := s.queue("default"); len(after) != 2 || after[0] != before[0] || after[1] != before[2] {
		t.Errorf("the queue was %q, is %q", before, after)
	}
}

func TestCheck25TheButtonsQuietAndStopOfTheBusyPageWork(t *testing.T) {
	s := newSite(t)
	spec := on(2, "default")
	spec.Beat = quickBeat
	p, other := s.process(spec), s.process(spec)
	b := s.browser()
	b.press("/busy", "quiet", p.identity)
	testkit.Await(t, "quiet is true", func() bool { return s.hash(p, "quiet") == "true" })
	if !strings.Contains(b.get("/busy"), "quiet</span>") || s.hash(other, "quiet") != "false" {
		t.Error("the page does not show that one process is quiet, or the other one is, too")
	}
	jid := s.push("Record", `[]`)
	if run := s.awaitRuns(1, jid)[0]; run.PID == p.PID() {
		t.Error("the quiet process ran a job")
	}
	b.press("/busy", "stop", p.identity)
	if code := p.Exit(soon); code != 0 || !other.Running() {
		t.Errorf("exit code %d, the other process runs: %v", code, other.Running())
	}
	b.press("/busy", "stop", "") // Stop all
	harness.Equal(t, "exit code", other.Exit(soon), 0)
	if body := b.get("/busy"); strings.Contains(body, p.identity) || strings.Contains(body, other.identity) {
		t.Error("the page shows processes that have ended")
	}
}
