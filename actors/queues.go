package actors

import "github.com/troupehq/troupe/fetch"

// The orders in which a capsule takes from its queues, as package fetch has them.
type (
	// Strict empties each queue before it looks at the next; see fetch.Strict.
	Strict = fetch.Strict
	// Weighted gives each queue a chance by its weight; see fetch.Weighted.
	Weighted = fetch.Weighted
)
