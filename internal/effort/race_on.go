//go:build race

package effort

// Race tells whether the race detector is on.
const Race = true
