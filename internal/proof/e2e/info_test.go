package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
)

// published is what a process tells about its queues, the maps as they are written.
type published struct {
	Queues   []string
	Weights  json.RawMessage
	Capsules map[string]struct {
		Mode    string
		Weights json.RawMessage
	}
}

// infoOf returns the info of the process at the number pid.
func infoOf(t *testing.T, rdb *redis.Client, p *chaos.Process) (in published) {
	t.Helper()
	testkit.Await(t, "the process is listed", func() bool {
		for _, identity := range rdb.SMembers(t.Context(), "processes").Val() {
			text := rdb.HGet(t.Context(), identity, "info").Val()
			var whose struct{ PID int }
			if json.Unmarshal([]byte(text), &whose) == nil && whose.PID == p.PID() {
				return json.Unmarshal([]byte(text), &in) == nil
			}
		}
		return false
	})
	return in
}

// The queues of a process are in the order of the file, as Ruby's Sidekiq has them
// with the same file; weights and modes are those that 7 and 8 work out.
func TestQueuesAreShownAsTheFileHasThem(t *testing.T) {
	for name, tt := range map[string]struct{ queues, mode, weights string }{
		"weighted":          {"[[very_often, 2], [seldom, 1], other]", "weighted", `{"very_often":2,"seldom":1,"other":0}`},
		"weights 0 and 1":   {"[[b, 0], [a, 1]]", "weighted", `{"b":0,"a":1}`},
		"strict":            {"[z, a, m]", "strict", `{"z":0,"a":0,"m":0}`},
		"random":            {"[[z, 1], [a, 1]]", "random", `{"z":1,"a":1}`},
		"a map":             {"{z: 1, m: 3, a: 2}", "weighted", `{"z":1,"m":3,"a":2}`},
		"numbers of Ruby's": {"[[z, 1.0], [a, 0x3]]", "weighted", `{"z":1,"a":3}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb, url := redistest.New(t)
			text := ":concurrency: 1\n:queues: " + tt.queues + "\n"
			file := filepath.Join(t.TempDir(), "sidekiq.yml")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			want := infoOf(t, rdb, sidekiq(t, url, "-C", file))
			got := infoOf(t, rdb, daemon(t, url, text+":handlers: {NoOp: {builtin: noop}}\n"))
			if diff := cmp.Diff(want.Queues, got.Queues); diff != "" {
				t.Errorf("queues, Ruby's - and ours +:\n%s", diff)
			}
			if c := got.Capsules["default"]; c.Mode != tt.mode || string(c.Weights) != tt.weights || string(got.Weights) != "["+tt.weights+"]" {
				t.Errorf("mode %s, weights %s and %s, expected %s, %s", c.Mode, c.Weights, got.Weights, tt.mode, tt.weights)
			}
		})
	}
}
