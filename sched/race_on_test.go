//go:build race

package sched_test

const raceEnabled = true // times are not to be trusted
