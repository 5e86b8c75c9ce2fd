package fetch

import (
	"slices"
	"testing"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redistest"
)

// The script and the fetcher number the units of a call alike, up to the last.
func TestClusterTakesAsManyAsACallMay(t *testing.T) {
	rdb, _ := redistest.NewCluster(t)
	f := member(t, rdb, "h:2:bb", "a")
	jobs := make([]any, maxTake+3)
	for i, job := range upTo(len(jobs)) {
		jobs[i] = job
	}
	if err := rdb.LPush(t.Context(), keys.Queue("a"), jobs...).Err(); err != nil {
		t.Fatal(err)
	}
	units := mustTake(t, f, 1<<40)
	if !slices.Equal(payloads(units), upTo(maxTake)) {
		t.Errorf("took %d units, expected the oldest %d", len(units), maxTake)
	}
	wip := f.cur.places[0][1]
	held := rdb.HGetAll(t.Context(), wip).Val()
	for _, u := range units {
		if held[u.Receipt] != string(u.Payload) {
			t.Fatalf("receipt %s stands for %q, expected %q", u.Receipt, held[u.Receipt], u.Payload)
		}
	}
	mustTake(t, f, 0, units...)
	if left := rdb.HLen(t.Context(), wip).Val(); left > 1 { // its mark
		t.Errorf("%d fields are left after all was acked", left)
	}
}
