package supervisor

import "time"

// Backoff is the wait before a restart: none before the first of a child, then
// Min, doubled with every further one, never more than Max, then spread by Jitter.
// A child that has stayed up for a period, and for twice as long as it waited
// last, begins anew. Children that restart together count together.
//
// The zero value is 100 ms to 5 s with a jitter of 0.2: the cap is below a third of the
// default lease, so that a heartbeat that crashes for ever does not cost the process its
// lease while it waits.
type Backoff struct {
	Min    time.Duration // wait before the second restart; below 0: never wait
	Max    time.Duration // cap; 0 beside a Min means 1 h
	Jitter float64       // share of the wait that is random, 0 to 1: d × (1 − Jitter × rand)
}
