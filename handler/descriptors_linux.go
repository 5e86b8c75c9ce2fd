package handler

import (
	"math"

	"golang.org/x/sys/unix"
)

// markInherited has programs not get the descriptors that this process has inherited.
func markInherited() {
	if unix.CloseRange(firstInherited, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) != nil { // Linux 5.10 and older
		markEach()
	}
}
