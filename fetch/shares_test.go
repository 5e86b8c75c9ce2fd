package fetch

import (
	"context"
	"fmt"
	"testing"

	"github.com/troupehq/troupe/internal/redistest"
)

// The jobs that a fetcher really gets, from queues that are never dry, have the
// shares of the weights whatever the size of the batch; chi-square against 5:3:1.
func TestSharesAreExactHoweverLargeTheBatch(t *testing.T) {
	const rounds = 20_000
	names := []string{"a", "b", "c"}
	shares := map[string]float64{"a": 5.0 / 9, "b": 3.0 / 9, "c": 1.0 / 9}
	for _, batch := range []int{1, 8, 64, 256, maxTake} {
		t.Run(fmt.Sprint(batch), func(t *testing.T) {
			rdb, _ := redistest.New(t)
			f := mustOpen(t, testEnv(rdb, Weighted{"a": 5, "b": 3, "c": 1}))
			defer func() { _, _ = f.Close(context.Background()) }()
			jobs := make([]any, rounds)
			for i := range jobs {
				jobs[i] = "{}"
			}
			for _, name := range names {
				rdb.LPush(t.Context(), "queue:"+name, jobs...)
			}
			counts, total := map[string]float64{}, 0.0
			var acks []Unit
			for total < rounds*2/3 { // no queue gets dry: a's share of that is 7,400
				units := mustTake(t, f, batch, acks...)
				if len(units) != batch {
					t.Fatalf("%d of %d", len(units), batch)
				}
				for _, u := range units {
					counts[u.Queue]++
				}
				total += float64(len(units))
				acks = units
			}
			chi2 := 0.0
			for name, share := range shares {
				d := counts[name] - share*total
				chi2 += d * d / (share * total)
			}
			if chi2 > 23 { // two degrees of freedom: once in 100,000
				t.Errorf("%v of %.0f, expected 5:3:1: chi-square %.1f", counts, total, chi2)
			}
		})
	}
}

// In strict order no job of a later queue comes while an earlier one has any,
// within a batch and between batches.
func TestStrictOrderIsExactHoweverLargeTheBatch(t *testing.T) {
	for _, batch := range []int{1, 8, 64, maxTake} {
		t.Run(fmt.Sprint(batch), func(t *testing.T) {
			rdb, _ := redistest.New(t)
			names := []string{"z", "b", "a"}
			f := mustOpen(t, testEnv(rdb, Strict(names)))
			defer func() { _, _ = f.Close(context.Background()) }()
			for _, name := range names {
				for i := range 300 {
					rdb.LPush(t.Context(), "queue:"+name, fmt.Sprintf("%s%d", name, i))
				}
			}
			var got []string
			for {
				units := mustTake(t, f, batch)
				for _, u := range units {
					got = append(got, string(u.Payload))
				}
				if len(units) < batch {
					break
				}
				if batch == 8 && len(got) == 320 { // beside a backlog of the second
					rdb.RPush(t.Context(), "queue:z", "urgent")
					if units := mustTake(t, f, 1); string(units[0].Payload) != "urgent" {
						t.Fatalf("got %s, want the job of the first queue", units[0].Payload)
					}
				}
			}
			if len(got) != 900 {
				t.Fatalf("%d jobs", len(got))
			}
			for i, job := range got {
				if want := fmt.Sprintf("%s%d", names[i/300], i%300); job != want {
					t.Fatalf("job %d is %s, want %s", i, job, want)
				}
			}
		})
	}
}
