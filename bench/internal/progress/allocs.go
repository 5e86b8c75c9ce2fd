package progress

import (
	"runtime"
	"sync/atomic"
)

// allocations is asked after each job of a run with a target. It reads the
// runtime's count twice: after a tenth of the jobs, when everything is warm, and
// at the end.
func (b *Progress) allocations(done, target int64) {
	if done != target/10 && done != target {
		return
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if done == target {
		atomic.StoreInt64(&b.words[wordMallocs], int64(m.Mallocs-b.early.Load()))
		return
	}
	b.early.Store(m.Mallocs)
}

// Allocs is the number of heap allocations per job of the worker, of all that it
// did; 0 if no target was set or it was not reached.
func (b *Progress) Allocs() float64 {
	target := atomic.LoadInt64(&b.words[wordTarget])
	if target == 0 {
		return 0
	}
	return float64(atomic.LoadInt64(&b.words[wordMallocs])) / float64(target-target/10)
}
