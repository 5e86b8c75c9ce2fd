package actors

import (
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/logs"
)

// GuardLog returns a logger that writes what log writes, in a goroutine, so that a slow reader of the log
// does not delay the program. A call that logs at error or above waits until its line is written, for 200 ms at
// most; no call waits while the log is known to be blocked. Then at most 1 MiB of lines below error is
// kept, and 2 MiB of all lines. The others are dropped. When the log goes on, a line in it tells how many; Health,
// the metrics and the dashboard tell it, too. flush waits until all lines are written, for 200 ms at
// most: call it before the program ends.
//
// Main guards its loggers. A program that calls Run or New guards its logger itself: otherwise the
// jobs and the stop of the daemon wait for whatever the logger writes to.
func GuardLog(log zerolog.Logger) (guarded zerolog.Logger, flush func()) {
	guarded, w := logs.Guard(log)
	return guarded, w.Flush
}
