package actors_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// BenchmarkAwait pushes a job and waits for its result, one at a time: by client.Await, and by BRPOP of a list that the handler
// pushes to before it returns. It reports the median time from before the push. Budget: Await takes 1.5 times as long.
//
//	go test ./actors -run '^$' -bench Await -benchtime 2000x
func BenchmarkAwait(b *testing.B) {
	rdb, _ := redistest.New(b)
	var r troupe.Registry
	troupe.HandleClass(&r, "Await", troupe.HandlerFunc(func(ctx context.Context, _ *troupe.Payload) error {
		return troupe.SetResult(ctx, "result")
	}))
	troupe.HandleClass(&r, "BRPOP", troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
		return rdb.LPush(ctx, "reply:"+p.JID(), `"result"`).Err()
	}))
	k := testkit.Start(b, actors.Config{Redis: rdb, Registry: &r})
	c := client.New(rdb)
	for name, wait := range map[string]func(jid string) error{
		"Await": func(jid string) error {
			_, err := c.Await(ctx, jid)
			return err
		},
		"BRPOP": func(jid string) error { return rdb.BRPop(ctx, time.Minute, "reply:"+jid).Err() },
	} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				begun := time.Now()
				jid, err := k.Client.PushClass(ctx, name, nil)
				if err == nil {
					err = wait(jid)
				}
				if err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(begun))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
		})
	}
}
