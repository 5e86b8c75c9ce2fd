package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
)

// program is one of the two ways to run a daemon: the command, and a user's own
// main. Both have the classes Record, Nap, which sleeps args[0] seconds, and
// Unresponsive, which goes on whatever it is told.
type program struct {
	name  string
	start func(t *testing.T, url string, timeout time.Duration) *running
	// hard is how long after the deadline a process with a Unresponsive job ends.
	hard time.Duration
}

// running is a daemon of which a test can ask whether a job has begun.
type running struct {
	t *testing.T
	*chaos.Process
	begun func(jid string) bool
}

func (r *running) awaitBegun(jid string) {
	r.t.Helper()
	testkit.Await(r.t, "the job has begun", func() bool { return r.begun(jid) })
}

const commandConfig = `
concurrency: 5
log: json
handlers:
  Record: {builtin: noop}
  Nap:    {exec: [/bin/sh, -c, 'echo begun; read -r p; p=${p#*args*\[}; exec sleep ${p%%\]*}']}
  Unresponsive: {exec: [/bin/sh, -c, 'trap "" TERM; echo begun; while :; do sleep 0.1; done']}
`

func programs() []program {
	return []program{
		{"command", func(t *testing.T, url string, timeout time.Duration) *running {
			p := daemon(t, url, commandConfig, "-t", timeout.String())
			return &running{t, p, func(jid string) bool {
				return slices.ContainsFunc(p.Logged("job output"), func(l harness.Line) bool { return harness.Str(l, "jid") == jid })
			}}
		}, 2 * time.Second}, // the child is killed
		{"library", func(t *testing.T, url string, timeout time.Duration) *running {
			rec := newRecords(t)
			p := startWorker(t, workerSpec{Redis: url, Records: rec.url, Timeout: timeout})
			return &running{t, p, func(jid string) bool { return len(rec.find("start", jid)) > 0 }}
		}, 3 * time.Second}, // the grace
	}
}

// forBoth runs a test with both programs.
func forBoth(t *testing.T, test func(t *testing.T, p program)) {
	t.Helper()
	t.Parallel()
	for _, p := range programs() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			test(t, p)
		})
	}
}
