package result

import (
	"fmt"
	"math"
	"strconv"
)

// Metric is a column.
type Metric struct {
	Key   string
	Title string
	Help  string
}

// The metrics. What is counted per job counts from the first job that ended to
// the last that was settled.
var (
	Rate     = Metric{"rate", "jobs/s", "jobs run and settled a second, from the first to the last"}
	WorkerUS = Metric{"worker_us", "worker µs/job", "processor time of the worker processes"}
	StoreUS  = Metric{"store_us", "store µs/job", "processor time of Redis (INFO cpu) or PostgreSQL"}
	Trips    = Metric{"trips", "trips/job", "reads of clients' sockets by Redis: round trips"}
	Commands = Metric{"commands", "commands/job", "Redis commands sent by clients, those inside scripts not counted (MONITOR)"}
	Calls    = Metric{"calls", "calls/job", "Redis commands, those inside scripts too (INFO)"}
	Allocs   = Metric{"allocs", "allocs/job", "heap allocations of the worker"}
	Refused  = Metric{"refused", "refused/job", "how often a job was told that there is no room, on average"}
	RSS      = Metric{"rss", "RSS MB", "most memory resident in one worker process"}
	Growth   = Metric{"growth", "growth %", "RSS at the end over RSS after a fifth of the jobs"}

	P50 = Metric{"p50", "p50 µs", "half of the samples are not above"}
	P99 = Metric{"p99", "p99 µs", "99 % of the samples are not above"}
	Max = Metric{"max", "max µs", "the largest sample"}

	TripsS    = Metric{"trips_s", "trips/s", "round trips a second, per process"}
	CommandsS = Metric{"commands_s", "commands/s", "client commands a second, per process"}
	CallsS    = Metric{"calls_s", "calls/s", "Redis commands a second, those inside scripts too (INFO), per process"}
	WorkerPct = Metric{"worker_pct", "worker CPU %", "of one core, per process"}
	StorePct  = Metric{"store_pct", "store CPU %", "of one core"}
	Kept      = Metric{"kept", "kept %", "rate against the same without delay, in the same round"}
)

// Metrics are all of them in the order of the columns.
var Metrics = []Metric{
	Rate, Kept, WorkerUS, StoreUS, Trips, Commands, Calls, Refused, Allocs, P50, P99, Max,
	TripsS, CommandsS, CallsS, WorkerPct, StorePct, RSS, Growth,
}

// Format writes a value with three digits that count, thousands apart.
func Format(v float64) string {
	abs := math.Abs(v)
	switch {
	case v == 0:
		return "0"
	case abs >= 1000:
		return thousands(int64(math.Round(v)))
	case abs >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case abs >= 9.995:
		return fmt.Sprintf("%.1f", v)
	case abs >= 0.9995:
		return fmt.Sprintf("%.2f", v)
	default:
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
}

// Count writes a whole number, thousands apart.
func Count(n int) string { return thousands(int64(n)) }

func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
