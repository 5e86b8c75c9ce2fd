package runs

import (
	"sync"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/test/harness"
)

func TestTheBucketIsTheFirstWhoseLimitIsAbove(t *testing.T) {
	for ms, want := range map[float64]int{
		-1: 0, 0: 0, 0.0999: 0, 0.1: 1, 0.5: 2, 1: 3, 5: 4, 19.999: 4, 20: 5, 29: 5, 30: 6, 45: 7, 64: 7, 65: 8, 100: 9, 150: 10, 225: 11,
		335: 12, 500: 13, 750: 14, 1100: 15, 1700: 16, 2500: 17, 3800: 18, 5750: 19, 8500: 20, 13_000: 21, 20_000: 22, 30_000: 23, 45_000: 24,
		65_000: 25, 100_000: 26, 150_000: 27, 225_000: 28, 334_999: 28, 335_000: 29, 1e9: 29,
	} {
		if got := bucket(time.Duration(ms * float64(time.Millisecond))); got != want {
			t.Errorf("%v ms: bucket %d, want %d", ms, got, want)
		}
	}
}

// The limits are written by hand here; each time span must be counted below the first limit
// that is above it.
func TestCoarseBucketsHaveTheLimitsThatAreShown(t *testing.T) {
	want := []float64{.0001, .0005, .001, .005, .02, .045, .1, .225, .5, 1.1, 2.5, 5.75, 13, 30, 65, 150, 335}
	if len(Coarse) != len(want) {
		t.Fatalf("limits %v, want %v", Coarse, want)
	}
	for i, limit := range Coarse {
		if limit.Seconds() != want[i] {
			t.Errorf("limit %d is %v, want %v s", i, limit, want[i])
		}
		for _, d := range []time.Duration{limit - 1, limit} {
			var h Histogram
			h.Observe(d, 3)
			counts := h.Coarsened()
			bucket := i
			if d == limit {
				bucket++
			}
			if len(counts) != len(want)+1 || counts[bucket] != 3 || h.Sum != 3*d {
				t.Errorf("%v: %v, sum %v, want 3 in bucket %d", d, counts, h.Sum, bucket)
			}
		}
	}
}

func TestOutcomesAreCountedOnce(t *testing.T) {
	c := NewCounts(2)
	for _, late := range []bool{false, true} {
		for _, o := range []job.Outcome{job.Done, job.Error, job.Panic, job.Interrupted, job.Parked} {
			c.Count(1, o, late, time.Second)
		}
	}
	if n, failed := c.Ended(); n != 8 || failed != 6 {
		t.Errorf("%d ended, %d with an error, want 8 and 6", n, failed)
	}
	sums := make([]Totals, 2)
	c.AddTo(sums)
	c.AddTo(sums)
	if got := sums[1]; sums[0] != (Totals{}) || got.Processed() != 16 || got.Failed() != 8 || got.Of(job.Parked) != 4 || got.Ended[job.Parked] != 2 || got.Times.Sum != 8*time.Second {
		t.Errorf("%+v", sums)
	}
}

// Those that count at once are a worker and a run whose slot the worker has got.
func TestNoCountIsLost(t *testing.T) {
	const each = 5000
	c, sums := NewCounts(3), make([]Totals, 3)
	var wg sync.WaitGroup
	for class := range 3 {
		wg.Go(func() {
			for range each {
				c.Count(class, job.Done, false, time.Millisecond)
			}
		})
	}
	var last uint64
	for n := uint64(0); n < 3*each; last = n {
		if n, _ = c.Ended(); n < last {
			t.Fatalf("%d ended, before %d", n, last)
		}
	}
	wg.Wait()
	c.AddTo(sums)
	for class, got := range sums {
		if got.Ended[job.Done] != each || got.Times.Buckets[3] != each {
			t.Errorf("class %d: %+v", class, got)
		}
	}
}

func TestTrafficByQueue(t *testing.T) {
	var c Traffic
	c.Expect("b", "a")
	names := []string{"a", "a", "c", "a"}
	c.Fetched(time.Millisecond, len(names), func(i int) string { return names[i] })
	c.Fetched(time.Millisecond, 0, nil)
	c.Settled(time.Second)
	c.Waited("a", time.Minute)
	c.Waited("c", -time.Second) // the clocks of two machines differ
	queues, fetch, settle := c.Read()
	if len(queues) != 3 || queues[0].Name != "b" || queues[0].Fetched != 0 || queues[1].Fetched != 3 || queues[2].Fetched != 1 {
		t.Errorf("%+v", queues)
	}
	if queues[1].Waits.Sum != SampleEvery*time.Minute || queues[2].Waits.Sum != 0 || queues[2].Waits.Buckets[0] != SampleEvery {
		t.Errorf("%+v", queues)
	}
	if fetch.Sum != 2*time.Millisecond || settle.Sum != time.Second {
		t.Errorf("fetch %v, settle %v", fetch, settle)
	}
}

func TestCountingDoesNotAllocate(t *testing.T) {
	c := NewCounts(1)
	harness.Equal(t, "allocations", testing.AllocsPerRun(1000, func() { c.Count(0, job.Done, false, time.Second) }), 0)
}

// BenchmarkCount counts in a slot of each goroutine's own, as processors do.
func BenchmarkCount(b *testing.B) {
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		c := NewCounts(1)
		for pb.Next() {
			c.Count(0, job.Done, false, time.Millisecond)
		}
	})
}
