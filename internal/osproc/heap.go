// This file keeps the garbage collector of a daemon from running all the time.

package osproc

import (
	"os"
	"sync"
)

// floorSize is what the heap counts as at least.
const floorSize = 32 << 20

var (
	floor []byte // never touched: address space, no memory
	once  sync.Once
)

// FloorHeap makes a small heap count as 32 MiB more. The collector runs each time
// that the heap has doubled; with the 4 MB of a daemon that is fifty times a second
// at full speed, and a quarter of its processor time. A large heap is hardly
// changed: at most 32 MiB of garbage more than before wait to be collected. It does nothing
// where GOGC or GOMEMLIMIT is set: then the user has decided. It is for those who
// own the process, as a main function does.
func FloorHeap() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	once.Do(func() { floor = make([]byte, floorSize) })
}
