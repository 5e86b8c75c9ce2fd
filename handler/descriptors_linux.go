package handler

import (
	"math"

	"golang.org/x/sys/unix"
)

// markInherited keeps the descriptors that this process has inherited from the programs that it starts.
func markInherited() {
	if unix.CloseRange(firstInherited, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) != nil { // Linux 5.10 and older
		markEach()
	}
}
