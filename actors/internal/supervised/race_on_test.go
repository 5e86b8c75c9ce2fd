//go:build race

package supervised

const raceEnabled = true
