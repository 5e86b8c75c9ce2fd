package goworkers_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/wire/goworkers"
)

// A handler moves its job into another queue of the namespace, and it is nowhere else then. (That this
// is one step is a case of the suite, with a lost reply.) The queue that the job is from
// is refused, and the job is retried with the reason.
func TestAJobIsMovedWithinItsNamespace(t *testing.T) {
	for _, ns := range []string{"", "app"} {
		t.Run("namespace "+ns, func(t *testing.T) {
			server := testkit.NewServer(t)
			ctx, rdb := t.Context(), server.Client
			prefix := ""
			if ns != "" {
				prefix = ns + ":"
			}
			var jobs troupe.Registry
			troupe.HandleClass(&jobs, "Mail", troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error {
				return troupe.MoveTo(strings.Trim(string(p.Args()), `[]"`))
			}))
			log := new(harness.Buffer)
			k := testkit.Start(t, actors.Config{
				Redis: rdb, Registry: &jobs, Logger: zerolog.New(log),
				Capsules: []actors.Capsule{{
					Name: "go", Concurrency: 1, Queues: actors.Strict{"mail"},
					Wire: goworkers.New(goworkers.Options{Namespace: ns, Classes: map[string]string{"mail": "Mail"}}),
				}},
			})
			const raw = `{"queue":"mail","class":"anything","args":%q,"jid":"m1","retry":true,"x":1.50}`
			rdb.RPush(ctx, prefix+"queue:mail", fmt.Sprintf(raw, "slow"))
			k.Await("it is moved", func() bool { return rdb.LLen(ctx, prefix+"queue:slow").Val() == 1 && k.Settled() })
			want := strings.Replace(fmt.Sprintf(raw, "slow"), `"queue":"mail"`, `"queue":"slow"`, 1)
			if got := rdb.LIndex(ctx, prefix+"queue:slow", 0).Val(); !strings.HasPrefix(got, strings.TrimSuffix(want, "}")+`,"enqueued_at":`) {
				t.Errorf("moved %s, want %s with the time", got, want)
			}
			if !rdb.SIsMember(ctx, prefix+"queues", "slow").Val() {
				t.Errorf("known queues: %q", rdb.SMembers(ctx, prefix+"queues").Val())
			}
			if keys := rdb.Keys(ctx, prefix+"troupe:claim*").Val(); len(keys) > 0 || rdb.LLen(ctx, prefix+"queue:mail").Val() != 0 {
				t.Errorf("it is also in %q, or in its old queue", keys)
			}

			rdb.RPush(ctx, prefix+"queue:mail", fmt.Sprintf(raw, "mail"))
			k.Await("the refused move is a failure", func() bool { return rdb.ZCard(ctx, prefix+"goretry").Val() == 1 && k.Settled() })
			reason := `"error_message":"move to the queue \"mail\": the job is from that queue"`
			if got := rdb.ZRange(ctx, prefix+"goretry", 0, 0).Val()[0]; !strings.Contains(got, reason) || !strings.Contains(got, `"retry_count":0`) {
				t.Errorf("retry %s, expected the reason", got)
			}
			k.Stop()
			if log.Count(`"outcome":"moved"`) != 1 || rdb.LLen(ctx, prefix+"queue:slow").Val() != 1 || len(rdb.Keys(ctx, prefix+"troupe:inprogress*").Val()) > 0 {
				t.Errorf("the log:\n%s", log)
			}
		})
	}
}
