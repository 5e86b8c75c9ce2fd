package actors_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// A moved job is in the other queue in the step that ends its run. It has not failed, and who takes
// from that queue runs it.
func TestAMovedJobHasNotFailed(t *testing.T) {
	mover := func(to string) *troupe.Registry {
		var r troupe.Registry
		troupe.HandleClass(&r, "Mover", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return troupe.MoveTo(to) }))
		return &r
	}
	const raw = `{"class":"Mover","args":[1.50, {"ä":"\u00e4"}],"jid":"m1","queue":"default","retry":false,"retry_count":7,"x":1,"enqueued_at":5.5}`
	for name, factory := range fetchers {
		t.Run(name, func(t *testing.T) {
			rdb := testkit.Redis(t)
			log := new(harness.Buffer)
			k := testkit.Start(t, actors.Config{
				Redis: rdb, Registry: mover("other"), Logger: zerolog.New(log),
				Capsules: []actors.Capsule{{Concurrency: 1, Fetch: factory}},
				ErrorHandlers: []actors.ErrorHandler{func(_ context.Context, err error, _ actors.ErrorContext) {
					t.Errorf("an error handler was told of %v", err)
				}},
			}, testkit.Strict())
			k.Expect(testkit.Events(func(e event.JobMoved) bool { return e.To == "other" && e.Job.JID == "m1" }).Of("Mover").Times(1), func() {
				if err := rdb.LPush(ctx, "queue:default", raw).Err(); err != nil {
					t.Fatal(err)
				}
			})
			k.Await("all settled", k.Settled)
			moved := rdb.LRange(ctx, "queue:other", 0, -1).Val()
			if len(moved) != 1 || !rdb.SIsMember(ctx, "queues", "other").Val() {
				t.Fatalf("queue:other holds %q of the queues %q", moved, rdb.SMembers(ctx, "queues").Val())
			}
			var at struct {
				EnqueuedAt float64 `json:"enqueued_at"`
			}
			if err := json.Unmarshal([]byte(moved[0]), &at); err != nil || time.Since(time.UnixMicro(int64(at.EnqueuedAt*1e6))) > time.Hour {
				t.Errorf("enqueued at %v, %v", at.EnqueuedAt, err)
			}
			text, _, _ := strings.Cut(moved[0], `"enqueued_at":`)
			want, _, _ := strings.Cut(strings.Replace(raw, `"queue":"default"`, `"queue":"other"`, 1), `"enqueued_at":`)
			harness.Equal(t, "moved", text, want)
			if s := k.Stats(); s.Processed != 0 || s.Failed != 0 {
				t.Errorf("counted as run: %+v", s)
			}
			harness.Equal(t, "runs were moved", classOf(k.Metrics(), "Mover").Runs["moved"], 1)
			k.Stop()
			if n := inProgress(t, rdb); n != 0 || size(t, rdb, "queue:default")+size(t, rdb, "retry")+size(t, rdb, "dead") != 0 {
				t.Errorf("%d jobs are still in progress, or in another place", n)
			}
			if log.Count(`"outcome":"moved"`) != 1 || log.Count(`"to":"other"`) != 1 || log.Count(`"level":"error"`) != 0 {
				t.Errorf("the log:\n%s", log)
			}
		})
	}
	t.Run("cluster", func(t *testing.T) {
		rdb, _ := redistest.NewCluster(t)
		k := testkit.Start(t, actors.Config{Redis: rdb, Registry: mover("other")})
		for range 20 {
			k.PushClass("Mover", nil)
		}
		k.Await("all are moved", func() bool { return rdb.LLen(ctx, "queue:other").Val() == 20 && k.Settled() })
		k.Stop()
		harness.Equal(t, "jobs", rdb.LLen(ctx, "queue:default").Val()+rdb.ZCard(ctx, "retry").Val()+rdb.LLen(ctx, "queue:other").Val(), 20)
	})
	// what cannot be a queue to move to is a failure, and the job is kept as any that fails
	for to, why := range map[string]string{"": "expected a name", "default": "is from that queue", "a.suspects": "expected a name", "\xff": "expected a name"} {
		t.Run("to "+to, func(t *testing.T) {
			rdb := testkit.Redis(t)
			k := testkit.Start(t, actors.Config{Redis: rdb, Registry: mover(to)})
			k.Expect(testkit.Events(func(e event.JobFailed) bool { return strings.Contains(e.Err.Error(), why) }).Times(1), func() { k.PushClass("Mover", nil) })
			k.Await("it is to be retried", func() bool { return rdb.ZCard(ctx, "retry").Val() == 1 })
		})
	}
}
