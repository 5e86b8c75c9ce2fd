//go:build race

package harness

// Race reports whether the race detector is on.
const Race = true
