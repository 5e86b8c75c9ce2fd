// Package job has the parts of a job that the daemon, the client and the console share: its
// id, its text, its limits, what its handler asked for, the state of an iterable one, the
// goroutines of its run, and what is kept of a text that is no job.
package job

import (
	"crypto/rand"
	"encoding/hex"
)

// NewID returns a new job id: 24 lower-case hex digits, 96 random bits.
func NewID() string {
	var id [12]byte
	rand.Read(id[:]) // never fails: see crypto/rand
	return hex.EncodeToString(id[:])
}
