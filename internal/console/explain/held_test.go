package explain_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/console/explain"
	"github.com/troupehq/troupe/internal/console/mask"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// Of a job that runs its limits are told, of a held one which limit holds it, who has the slots, and how many are before it, of
// one age, too. Keys are masked.
func TestJobsUnderLimits(t *testing.T) {
	rdb, release := testkit.Redis(t), make(chan struct{})
	var r troupe.Registry
	troupe.HandleClass(&r, "C", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { <-release; return nil }),
		troupe.Options{Limits: []troupe.Limit{{Name: "account", AtOnce: 1, By: "0"}, {Name: "wide", AtOnce: 500}}})
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Concurrency: 5})
	t.Cleanup(func() { close(release) })
	at := time.Now().UnixMilli()
	push := func(jid, key string) {
		harness.OK(t, rdb.LPush(t.Context(), "queue:default", fmt.Sprintf(`{"class":"C","args":[%q],"queue":"default","jid":%q,"enqueued_at":%d}`, key, jid, at)).Err())
	}
	push("runs", "7")
	k.Await("it runs", func() bool { return k.Stats().Busy == 1 })
	for n := range 4 {
		push(fmt.Sprint("h", n), "7")
		k.Await("it is held", func() bool { return rdb.ZCard(t.Context(), "troupe:held:account:7").Val() == int64(n+1) })
	}
	slots := make([]any, 0, 300)
	for n := range 150 { // more than are read, and they end before
		slots = append(slots, time.Now().Add(20*time.Second).Unix(), fmt.Sprint("other", n))
	}
	harness.OK(t, rdb.Do(t.Context(), append([]any{"zadd", "troupe:slots:wide"}, slots...)...).Err())
	told := func(jid string, m *mask.Masker) (x *explain.Explanation, why string) {
		t.Helper()
		x = harness.Must(explain.Job(t.Context(), rdb, jid, m))(t)
		for _, r := range x.Why {
			why += r.Text + "\n"
		}
		return x, why
	}
	wants := func(jid string, m *mask.Masker, place string, parts ...string) {
		t.Helper()
		x, why := told(jid, m)
		for _, part := range parts {
			if x.Place != place || !strings.Contains(why, part) {
				t.Errorf("%s is %s, expected %s and %q in:\n%s", jid, x.Place, place, part, why)
			}
		}
	}
	k.Await("a beat tells of it", func() bool { x, _ := told("runs", nil); return x.Place == "running" })
	wants("runs", nil, "running", "It has a slot of the limit account:7, which allows 1 at once.", "It has a slot of the limit wide, which allows 500 at once.")
	wants("h0", nil, "held", "The limit account:7 holds it since ", "It allows 1 at once. Its slots have runs. No job is before it.")
	wants("h1", nil, "held", "1 is before it.")
	wants("h3", nil, "held", "3 are before it.")
	hide := mask.New(mask.Hide, nil, nil)
	wants("h3", hide, "held", "The limit account:[1 hidden] holds it")
	wants("runs", hide, "running", "a slot of the limit account:[1 hidden], which")
}
