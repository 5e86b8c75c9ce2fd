//go:build race

package harness

// Race tells whether the race detector is on.
const Race = true
