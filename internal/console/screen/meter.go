package screen

import "time"

// historySize is how many rates are kept.
const historySize = 60

// Meter turns two counters into rates. It is not safe for concurrent use.
type Meter struct {
	Window  time.Duration // over which a rate is averaged
	History []float64     // the rate of the first counter, each over a second or the time between two samples, oldest first

	samples []sample // of the last Window, oldest first
	mark    sample   // begin of the present second
}

type sample struct {
	at   time.Time
	a, b uint64
}

// Add records the counters at an instant and returns the rates per second over the window, or
// since the first sample.
func (m *Meter) Add(at time.Time, a, b uint64) (rateA, rateB float64) {
	s := sample{at, a, b}
	if m.mark.at.IsZero() {
		m.mark = s
	}
	if span := at.Sub(m.mark.at); span >= time.Second {
		m.History = append(m.History, perSecond(m.mark.a, a, span))
		if len(m.History) > historySize {
			m.History = append(m.History[:0], m.History[1:]...)
		}
		m.mark = s
	}
	m.samples = append(m.samples, s)
	for len(m.samples) > 2 && at.Sub(m.samples[1].at) >= m.Window {
		m.samples = append(m.samples[:0], m.samples[1:]...)
	}
	span := at.Sub(m.samples[0].at)
	return perSecond(m.samples[0].a, a, span), perSecond(m.samples[0].b, b, span)
}

func perSecond(from, to uint64, span time.Duration) float64 {
	if span <= 0 || to < from {
		return 0
	}
	return float64(to-from) / span.Seconds()
}
