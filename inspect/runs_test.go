package inspect

import (
	"fmt"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/runs"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// Runs are counted once, whichever form they are written in, and in the span that they are of.
func TestRuns(t *testing.T) {
	for name, dialects := range map[string]beat.Dialects{"7": beat.Dialect7, "8": beat.Dialect8, "both": beat.Dialect7 | beat.Dialect8} {
		t.Run(name, func(t *testing.T) {
			rdb, _ := redistest.New(t)
			ctx, i := t.Context(), New(rdb)
			flush := func(class string, age time.Duration, n int, took time.Duration) {
				m := beat.NewMetrics(fmt.Sprint("a:1:", class, age), dialects, func() map[string]runs.Totals { return nil })
				for range n {
					m.CountAs(class, job.Done, took)
				}
				m.CountAs(class, job.Error, took)
				if err := m.Flush(ctx, rdb, time.Now().Add(-age)); err != nil {
					t.Fatal(err)
				}
			}
			flush("A|B", 5*time.Minute, 94, 10*time.Millisecond)
			flush("A|B", 30*time.Minute, 6, 400*time.Millisecond)
			flush("A|B", 3*time.Hour, 1, time.Hour)
			flush("Other", 5*time.Minute, 1, 0)
			all, err := i.Runs(ctx, time.Hour, time.Minute)
			if err != nil || len(all) != 2 || len(all["A|B"]) < 60 || all["Other"] == nil {
				t.Fatalf("%v, %v", err, all)
			}
			var sum Runs
			spans := 0
			for k := range all["A|B"] {
				if r := &all["A|B"][k]; r.Count > 0 {
					spans++
					sum.Add(r)
				}
			}
			if spans != 2 || sum.Count != 102 || sum.Failed != 2 || sum.Time < 3*time.Second || sum.Time > 4*time.Second {
				t.Errorf("%d spans, %+v", spans, sum)
			}
			if p50, p95 := sum.Quantile(0.5), sum.Quantile(0.95); p50 != 20*time.Millisecond || p95 != 500*time.Millisecond {
				t.Errorf("half of them in %s, 95 %% in %s", p50, p95)
			}
			one, err := i.Runs(ctx, 8*time.Hour, time.Hour, "A|B", "None")
			if err != nil || len(one) != 1 {
				t.Fatalf("%v, %v", err, one)
			}
			sum = Runs{}
			for k := range one["A|B"] {
				sum.Add(&one["A|B"][k])
			}
			if last := RunLimits[len(RunLimits)-1]; sum.Count != 104 || sum.Quantile(1) != last || last != 335*time.Second {
				t.Errorf("%+v", sum)
			}
			if none := (Runs{}); none.Quantile(0.5) != 0 {
				t.Error("a quantile of nothing")
			}
			if _, err := i.Runs(ctx, time.Hour, time.Second); err == nil {
				t.Error("spans of a second are taken")
			}
		})
	}
}
