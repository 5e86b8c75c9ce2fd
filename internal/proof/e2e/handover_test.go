package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// A daemon takes the queue that Ruby's applications push to, and a real Sidekiq takes the queue that
// the daemon hands over to: each class runs where its code is, half of the jobs of the class Fail on
// either side, and a retry stays on its side.
func TestJobsOfRubysClassesAreHandedOverToRuby(t *testing.T) {
	t.Parallel()
	const each = 40
	rdb, url := redistest.New(t)
	sidekiq(t, url, "-c", "2", "-q", "default_ruby")
	p := daemon(t, url, `
unknown: {queue: default_ruby}
handlers:
  GoOnly: {exec: [/bin/sh, -c, "exit 0"]}
  Fail: {builtin: fail, take: 50%}
`)
	var pushed struct {
		Awkward  []struct{ JID, Args string }
		Failing  []string
		Programs []string
	}
	ruby(t, url, `
lists = [`+strings.Join(awkward, ",\n")+`]
show(awkward: lists.map { |args| {jid: Sidekiq::Client.push("class" => "Record", "args" => args, "retry" => 3, "tags" => ["a"]), args: JSON.generate(args)} },
  failing: (1..`+fmt.Sprint(each)+`).map { |i| Sidekiq::Client.push("class" => "Fail", "args" => [i]) },
  programs: (1..5).map { Sidekiq::Client.push("class" => "GoOnly", "args" => []) })`, &pushed)
	here, ours := troupe.Percent(50), map[string]bool{}
	for _, jid := range pushed.Failing {
		if here.Has(jid) {
			ours[jid] = true
		}
	}
	if len(ours) == 0 || len(ours) == each {
		t.Fatalf("%d of %d jobs are in the share of half", len(ours), each)
	}
	theirs := each - len(ours)
	args, runs := map[string]string{}, map[string]int{}
	for _, job := range pushed.Awkward {
		args[job.JID] = job.Args
	}
	for try := 1; try <= 2; try++ {
		rubyRuns(t, rdb, len(pushed.Awkward)+try*theirs)
		testkit.Await(t, fmt.Sprintf("all have failed %d times", try), func() bool {
			n := 0
			for _, raw := range rdb.ZRange(t.Context(), "retry", 0, -1).Val() {
				if parsed(t, raw).Failures() == try {
					n++
				}
			}
			return n == each
		})
		for _, raw := range rdb.ZRange(t.Context(), "retry", 0, -1).Val() {
			job := parsed(t, raw)
			class, _ := job.String("error_class")
			queue, from := "default", "error"
			if !ours[job.JID()] {
				queue, from = "default_ruby", "ArgumentError"
			}
			if job.Queue() != queue || class != from || job.Class() != "Fail" {
				t.Errorf("failure %d of a job of the queue %s: %s", try, queue, raw)
			}
		}
		if try == 1 {
			retryNow(t, rdb)
		}
	}
	for _, run := range rubyRuns(t, rdb, len(pushed.Awkward)+2*theirs) {
		if runs[run.JID]++; run.Class == "Record" && string(run.Args) != args[run.JID] || run.Class == "Fail" && ours[run.JID] {
			t.Errorf("Ruby ran %s %s with %s", run.Class, run.JID, run.Args)
		}
	}
	for jid := range args {
		harness.Equal(t, "runs of "+args[jid], runs[jid], 1)
	}
	for _, jid := range pushed.Programs {
		harness.Equal(t, "runs of a program in Ruby", runs[jid], 0)
	}
	testkit.Await(t, "the queues are empty", func() bool {
		return rdb.LLen(t.Context(), "queue:default").Val()+rdb.LLen(t.Context(), "queue:default_ruby").Val() == 0
	})
	p.Stop(soon)
	if n := strings.Count(p.Stderr(), "no handler for this class: its jobs are handed over"); n != 1 {
		t.Errorf("warned %d times of the class Record:\n%s", n, p.Stderr())
	}
	harness.Equal(t, "jobs of the programs that are left", strings.Count(strings.Join(leftovers(t, rdb), " "), "GoOnly"), 0)
	harness.Equal(t, "dead jobs", rdb.ZCard(t.Context(), "dead").Val(), 0)
}

func TestADaemonThatWouldHandOverToItselfDoesNotStart(t *testing.T) {
	t.Parallel()
	_, url := redistest.New(t)
	p := daemonSoon(t, url, "unknown: {queue: default}\nhandlers: {A: {builtin: noop}}\n")
	if code := p.Exit(soon); code != 1 || !strings.Contains(p.Stderr(), "a queue that this daemon does not take from (capsule default does): jobs would circle") {
		t.Errorf("exit code %d: %s", code, p.Stderr())
	}
}
