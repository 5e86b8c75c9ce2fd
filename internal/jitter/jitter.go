// Package jitter spreads the pauses of a fleet. What it draws is made of who
// asks, for what, and when, and of nothing else: processes differ, since their
// identities do, and so do instants; but in virtual time, where the instants
// repeat, a simulation draws the same again whatever goroutine comes first. A
// generator that goroutines share would hand its numbers out in their order.
package jitter

import (
	"hash/fnv"
	"io"
	"math/rand/v2"
	"time"
)

// Rand returns the generator of this instant for the use what of the process
// with this identity. It is not safe for concurrent use; make one where it is
// needed.
func Rand(identity, what string) *rand.Rand {
	h := fnv.New64a()
	_, _ = io.WriteString(h, identity)
	_, _ = h.Write([]byte{0})
	_, _ = io.WriteString(h, what)
	return rand.New(rand.NewPCG(h.Sum64(), uint64(time.Now().UnixNano())))
}

// Half returns d less a random part of its second half.
func Half(d time.Duration, identity, what string) time.Duration {
	return d/2 + time.Duration(Rand(identity, what).Float64()*float64(d)/2)
}
