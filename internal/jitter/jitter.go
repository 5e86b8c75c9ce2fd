// Package jitter spreads the pauses of a fleet. What it draws is made of who
// asks, for what, and when, and of nothing else: processes differ, since their
// identities do, and so do instants; but in virtual time, where the instants
// repeat, a simulation draws the same again whatever goroutine comes first. A
// generator that goroutines share would hand its numbers out in their order.
package jitter

import (
	"math/rand/v2"
	"time"
)

// Rand returns the generator of this instant for the use what of the process
// with this identity. It is not safe for concurrent use; make one where it is
// needed.
func Rand(identity, what string) *rand.Rand {
	return rand.New(rand.NewPCG(seed(identity, what), uint64(time.Now().UnixNano())))
}

// Uint64 is the first number that Rand would draw at now. It is for what is done
// very often: it allocates nothing.
func Uint64(identity, what string, now time.Time) uint64 {
	return rand.NewPCG(seed(identity, what), uint64(now.UnixNano())).Uint64()
}

// seed is FNV-1a of both with a 0 between them.
func seed(identity, what string) uint64 {
	const prime = 1099511628211
	h := uint64(14695981039346656037)
	for i := range len(identity) {
		h = (h ^ uint64(identity[i])) * prime
	}
	h *= prime
	for i := range len(what) {
		h = (h ^ uint64(what[i])) * prime
	}
	return h
}

// Half returns d less a random part of its second half.
func Half(d time.Duration, identity, what string) time.Duration {
	return d/2 + time.Duration(Rand(identity, what).Float64()*float64(d)/2)
}
