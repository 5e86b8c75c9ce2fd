package actors

import (
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/logs"
)

// GuardLog returns a logger that writes what log writes and never holds up those who log, however
// slow the reader of the log is. A goroutine writes. A line at error or above waits until it is written, for 200 ms at
// most; no line waits while the log is known to be blocked. Of lines below error at most 1 MiB are
// kept then, of all lines 2 MiB. The others are dropped: when the log goes on a line in it tells how many, and so do
// Health, the metrics and the dashboard. flush waits until all is written, for 200 ms at
// most: call it before the program ends.
//
// Main does so with its loggers. With Run and New it is for the program to do: with another logger the
// jobs and the stop of the daemon wait for whatever the logger writes to.
func GuardLog(log zerolog.Logger) (guarded zerolog.Logger, flush func()) {
	guarded, w := logs.Guard(log)
	return guarded, w.Flush
}
