// This file bounds what tests repeat. The race detector makes a repetition some ten
// times as dear, and most of them are for what it does not look for: random states, seeds,
// numbers of entries. They run in full without it, and with it when TROUPE_LONG is set
// (make check-long).

package harness

import "os"

// Effort is how often to repeat: full, or bounded with the race detector.
func Effort(bounded, full int) int {
	if Race && os.Getenv("TROUPE_LONG") == "" {
		return bounded
	}
	return full
}
