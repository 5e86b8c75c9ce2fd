// Package sim runs a whole fleet in one goroutine's time: several daemons, a
// Redis that runs their scripts, a client and Ruby's workers, in one
// testing/synctest bubble. Whatever talks to Redis, and each start and end of a
// job, stops at a gate; the simulator lets one through, waits until nothing
// moves any more, checks what must hold, and draws the next by the seed. Faults
// are part of the plan that a seed stands for. The same plan gives the same
// trace, byte for byte.
//
// All of it is test code: see docs/proof.md.
package sim
