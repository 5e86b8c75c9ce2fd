package progress_test

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/troupehq/troupe/bench/internal/progress"
)

// Two maps of one file see each other's counts: that is all the driver has.
func TestMapsShareCountsAndSamples(t *testing.T) {
	driver := create(t, 10)
	worker, err := progress.Open(driver.Path)
	if err != nil {
		t.Fatal(err)
	}
	worker.Ready()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500_000 {
				worker.Add(1)
			}
		})
	}
	wg.Wait()
	worker.Sample(0, 500)
	worker.Sample(9, -3) // clocks of two cores: never 0, which is none
	worker.Sample(10, 1) // out of range
	if driver.ReadyCount() != 1 || driver.Done() != 4_000_000 {
		t.Errorf("%d ready, %d done, expected 1 and 4000000", driver.ReadyCount(), driver.Done())
	}
	got := driver.Samples(20)
	if len(got) != 10 || got[0] != 500 || got[1] != 0 || got[9] != 1 {
		t.Errorf("samples %v", got)
	}
}

var sink []byte

func TestAllocsCountTheWarmPartOfARun(t *testing.T) {
	b := create(t, 0)
	const target = 10_000
	b.SetTarget(target)
	for i := range target {
		each := 3
		if i < target/10 { // cold
			each = 100
		}
		for range each {
			sink = make([]byte, 64)
		}
		b.Add(1)
	}
	if got := b.Allocs(); got < 3 || got > 3.5 {
		t.Errorf("%v allocations per job, expected 3", got)
	}
}

func TestOpenRefusesAnotherFile(t *testing.T) {
	if _, err := progress.Open(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing file was opened")
	}
}

func create(t *testing.T, samples int) *progress.Progress {
	t.Helper()
	b, err := progress.Create(filepath.Join(t.TempDir(), "progress"), samples)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}
