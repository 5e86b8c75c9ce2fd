package peers

import (
	"testing"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/test/harness"
)

// The options of Laravel's worker, and its exit codes.
func TestOptionsOfTheWorker(t *testing.T) {
	for name, c := range map[string]struct {
		limits actors.Limits
		ours   int
		args   []string
		theirs int
		code   int
	}{
		"once":            {actors.Limits{Jobs: 1, Empty: true}, 1, []string{"--once"}, 1, 0},
		"max-jobs":        {actors.Limits{Jobs: 2}, 2, []string{"--max-jobs=2"}, 2, 0},
		"stop-when-empty": {actors.Limits{Empty: true}, 3, []string{"--stop-when-empty"}, 3, 0},
		"memory":          {actors.Limits{Memory: 1}, 0, []string{"--memory=1"}, 1, 12},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newApp(t, "laravel_database_")
			for range 3 {
				a.push("go", "task", map[string]any{"side": "ours"})
				a.push("php", task, map[string]any{"side": "theirs"})
			}
			if code := a.troupe(daemon{Queues: []string{"go"}, Concurrency: 2, Limits: c.limits}).Exit(harness.Patience); code != c.code {
				t.Errorf("our exit code is %d, expected %d", code, c.code)
			}
			harness.Equal(t, "jobs ran here", len(a.runs()), c.ours)
			if code := a.work(append(c.args, "--queue=php")...).exits(t); code != c.code {
				t.Errorf("Laravel's exit code is %d, expected %d", code, c.code)
			}
			if n := len(a.runs()); n != c.ours+c.theirs {
				t.Errorf("%d jobs ran there, expected %d", n-c.ours, c.theirs)
			}
		})
	}
}
