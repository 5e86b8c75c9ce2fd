package osproc

import (
	"runtime"
	"testing"
)

var sink []byte

// collections counts the runs of the collector while so many bytes of garbage are made.
func collections(bytes int) uint32 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range bytes / 1024 {
		sink = make([]byte, 1024)
	}
	runtime.ReadMemStats(&after)
	return after.NumGC - before.NumGC
}

func TestFloor(t *testing.T) {
	const garbage = 256 << 20
	t.Setenv("GOGC", "100")
	if FloorHeap(); floor != nil {
		t.Fatal("a floor where GOGC is set")
	}
	before := collections(garbage)
	t.Setenv("GOGC", "")
	FloorHeap()
	if after := collections(garbage); after == 0 || after > before/3 {
		t.Errorf("%d collections with a floor, %d without, expected less than a third", after, before)
	}
}
