package demo

import "time"

const (
	rateWindow  = 3 * time.Second // over which a rate is averaged
	historySize = 60              // seconds of throughput that are kept
)

// meter turns counters into rates. It is not safe for concurrent use.
type meter struct {
	samples []sample // of the last rateWindow, oldest first
	mark    sample   // begin of the present second
	history []float64
}

type sample struct {
	at                time.Time
	processed, pushed uint64
}

// add records the counters at an instant.
func (m *meter) add(s sample) {
	if m.mark.at.IsZero() {
		m.mark = s
	}
	if span := s.at.Sub(m.mark.at); span >= time.Second {
		m.history = append(m.history, perSecond(m.mark.processed, s.processed, span))
		if len(m.history) > historySize {
			m.history = append(m.history[:0], m.history[1:]...)
		}
		m.mark = s
	}
	m.samples = append(m.samples, s)
	for len(m.samples) > 2 && s.at.Sub(m.samples[1].at) >= rateWindow {
		m.samples = append(m.samples[:0], m.samples[1:]...)
	}
}

// rates per second over the last rateWindow, or since the first sample.
func (m *meter) rates() (processed, pushed float64) {
	if len(m.samples) < 2 {
		return 0, 0
	}
	a, b := m.samples[0], m.samples[len(m.samples)-1]
	span := b.at.Sub(a.at)
	return perSecond(a.processed, b.processed, span), perSecond(a.pushed, b.pushed, span)
}

func perSecond(from, to uint64, span time.Duration) float64 {
	if span <= 0 || to < from {
		return 0
	}
	return float64(to-from) / span.Seconds()
}
