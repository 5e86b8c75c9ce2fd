package inspect_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
)

// Sidekiq cannot show JSON that is no object: it is killed as a job that it can,
// also where it is dead as it came.
func TestKillMakesAJobOfJSONThatIsNoObject(t *testing.T) {
	texts := []string{"[1]", "5", "null", "true", `"x"`, "1e999"}
	i, rdb, url := start(t)
	add(t, rdb, "dead", someTime, texts[:3]...)
	add(t, rdb, "schedule", 5, texts[3:]...)
	add(t, rdb, "schedule", 6, failed(1, "a", 0), "not a job")
	if got := harness.Must(i.ScheduledSet.KillAll(t.Context(), inspect.Bulk{}))(t); got.Done != 5 {
		t.Errorf("%+v", got)
	}
	if got := harness.Must(i.DeadSet.KillAll(t.Context(), inspect.Bulk{Where: func(e *inspect.SortedEntry) bool { return e.Err != nil }}))(t); got.Done != 4 {
		t.Errorf("%+v", got)
	}
	var seen []string
	for _, e := range all(t, i.DeadSet.Each(t.Context())) {
		if e.Raw == "not a job" || e.JID == jid(1) {
			continue
		}
		var args []string
		harness.OK(t, json.Unmarshal(e.Summary().Args, &args))
		if e.Err != nil || e.Summary().Class != "Troupe::NotAJob" || e.Queue != "default" || len(args) != 1 {
			t.Fatalf("%s: %v", e.Raw, e.Err)
		}
		seen = append(seen, args[0])
	}
	slices.Sort(seen)
	slices.Sort(texts)
	if !slices.Equal(seen, texts) || rdb.Exists(t.Context(), "schedule").Val() != 0 {
		t.Errorf("dead: %q, want %q", seen, texts)
	}
	got := ruby(t, url, `out *Sidekiq::DeadSet.new.select { |e| e.display_class == "Troupe::NotAJob" }.map { |e| e.args[0] }.sort`)
	if fmt.Sprint(got) != fmt.Sprint(texts) {
		t.Errorf("Ruby shows %v, want %q", got, texts)
	}
}
