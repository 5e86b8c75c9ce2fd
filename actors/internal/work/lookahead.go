package work

import "time"

const (
	// windowTime is the least time over which the rate of a capsule is taken.
	windowTime = 3 * time.Millisecond
	// aheadTime is how much work may be fetched ahead: what is fetched is to
	// start within two milliseconds, or within four round trips where those take longer;
	// twice as much of jobs that ask their limits meanwhile.
	aheadTime  = 2 * time.Millisecond
	aheadTrips = 4
	// holdTime, or aheadTrips, is when a unit that waits for a slot goes back.
	holdTime = 5 * time.Millisecond
	// aheadMax bounds the look-ahead on a fast network; the bound grows with the round
	// trip. More brings nothing: a call of 1,000 units costs Redis hardly less a unit than
	// one of 256.
	aheadMax  = 512
	fastTrip  = 250 * time.Microsecond
	aheadHard = 8192
	// bytesUsed is which part of the bytes of a call it is asked to bring: payloads are
	// not all of the mean size, and a fetcher counts what Redis needs to keep them. One
	// that brought less than bytesLess was not cut short.
	bytesUsed, bytesLess = 0.75, 0.4
)

// LookAhead measures how fast a capsule works and how long a call takes, and decides
// how many units may be fetched ahead of free slots: none for slow jobs, by
// arithmetic. Guarded by the capsule's lock.
type LookAhead struct {
	start time.Time // of the window
	done  int       // jobs ended in it
	rate  float64   // jobs a second, of the last windows
	trip  time.Duration
	bytes float64 // of a payload, on average
	limit float64 // bytes of the payloads that may wait for a slot, and of those of one call
	Units int     // how many may wait for a worker
	none  bool    // no look-ahead at all
	asks  bool    // the jobs ask limits
	most  int     // of one call, since one has failed; 0 is no bound
}

// NewLookAhead makes the LookAhead of a capsule that keeps so many bytes of payloads; nothing is
// fetched ahead unless it may. With asks its jobs ask limits.
func NewLookAhead(bytes int, may, asks bool) LookAhead {
	return LookAhead{limit: float64(bytes), none: !may, asks: asks}
}

// Ended counts a job that ended now.
func (p *LookAhead) Ended(now time.Time) {
	p.done++
	passed := now.Sub(p.start)
	if passed < windowTime {
		return
	}
	rate := float64(p.done) / passed.Seconds()
	if p.rate == 0 || rate < p.rate/2 || rate > p.rate*3/2 {
		p.rate = rate // the first, or it has changed
	} else {
		p.rate = (p.rate + rate) / 2
	}
	p.start, p.done = now, 0
	p.plan()
}

// Called notes what a call took, and brought.
func (p *LookAhead) Called(took time.Duration, units, bytes int) {
	switch {
	case p.trip == 0 || took < p.trip:
		p.trip = took
	default: // slowly up: the shortest calls are those that tell the round trip
		p.trip += (took - p.trip) / 64
	}
	if p.most *= 2; p.most > aheadHard {
		p.most = 0
	}
	if units > 0 {
		mean := float64(bytes) / float64(units)
		if p.bytes == 0 || mean > p.bytes {
			p.bytes = mean
		} else {
			p.bytes += (mean - p.bytes) / 8
		}
	}
}

// plan computes the look-ahead.
func (p *LookAhead) plan() {
	if p.none {
		return
	}
	horizon := p.times(max(aheadTime, aheadTrips*p.trip))
	limit := float64(aheadMax)
	if p.trip > fastTrip {
		limit *= float64(p.trip) / float64(fastTrip)
	}
	if p.bytes > 0 {
		limit = min(limit, bytesUsed*p.limit/p.bytes)
	}
	p.Units = int(min(p.rate*horizon.Seconds(), limit, aheadHard))
}

// Call returns how many of n units one call may take.
func (p *LookAhead) Call(n int) int {
	if p.most > 0 {
		n = min(n, p.most)
	}
	if p.bytes == 0 {
		return n
	}
	return min(n, max(1, int(bytesUsed*p.limit/p.bytes)))
}

// Emptied tells whether a call that brought fewer units than it asked for, of so many bytes,
// has emptied the queues; else it was cut short.
func (p *LookAhead) Emptied(bytes int) bool { return float64(bytes) < bytesLess*p.limit }

// Failed notes that a call for so many units did not succeed: its reply may have been
// more than the network carries within a time-out. The next ones ask for half as many, and
// for twice as many after each that does succeed.
func (p *LookAhead) Failed(asked int) {
	if asked > 0 {
		p.most = max(1, asked/2)
	}
}

// Stop plans no look-ahead until a whole window has passed.
func (p *LookAhead) Stop(now time.Time) {
	p.start, p.done, p.rate, p.Units = now, 0, 0, 0
}

// Patience is how long a unit may wait for a slot.
func (p *LookAhead) Patience() time.Duration { return p.times(max(holdTime, aheadTrips*p.trip)) }

// times is d, twice of jobs that ask.
func (p *LookAhead) times(d time.Duration) time.Duration {
	if p.asks {
		d *= 2
	}
	return d
}
