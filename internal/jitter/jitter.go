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
	return rand.New(Of(identity).source(what, time.Now()))
}

// Seed stands for an identity where much is drawn: it allocates nothing.
type Seed uint64

const prime = 1099511628211

// Of returns the seed of an identity.
func Of(identity string) Seed { return Seed(14695981039346656037).add(identity) * prime }

// Uint64 is the first number that Rand would draw at now.
func (s Seed) Uint64(what string, now time.Time) uint64 { return s.source(what, now).Uint64() }

func (s Seed) source(what string, now time.Time) *rand.PCG {
	return rand.NewPCG(uint64(s.add(what)), uint64(now.UnixNano()))
}

// add is FNV-1a; there is a 0 between the identity and what it draws for.
func (s Seed) add(text string) Seed {
	for i := range len(text) {
		s = (s ^ Seed(text[i])) * prime
	}
	return s
}

// Doubled returns first doubled n times, and most if that is less. A first of 0 stays 0.
func Doubled(first, most time.Duration, n int) time.Duration {
	d := first
	for i := 0; i < n && 0 < d && d < most; i++ {
		d *= 2
	}
	return min(d, most)
}

// Half returns d less a random part of its second half.
func Half(d time.Duration, identity, what string) time.Duration {
	return d/2 + time.Duration(Rand(identity, what).Float64()*float64(d)/2)
}
