package actors

import (
	"github.com/troupehq/troupe/internal/beat"
)

// Metrics names the versions of Sidekiq whose Metrics page shows the jobs of
// this process. 7 and 8 keep the same numbers under different keys; 6 has no
// such page.
type Metrics int

// The values of Config.Metrics.
const (
	MetricsBoth Metrics = iota // the default
	Metrics7
	Metrics8
	MetricsOff
)

// String returns "both", "7", "8" or "off", the names used in configuration files.
func (m Metrics) String() string {
	switch m {
	case Metrics7:
		return "7"
	case Metrics8:
		return "8"
	case MetricsOff:
		return "off"
	default:
		return "both"
	}
}

func (m Metrics) dialects() beat.Dialects {
	switch m {
	case Metrics7:
		return beat.Dialect7
	case Metrics8:
		return beat.Dialect8
	case MetricsOff:
		return 0
	default:
		return beat.Dialect7 | beat.Dialect8
	}
}
