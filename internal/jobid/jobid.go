// Package jobid makes job ids.
package jobid

import (
	"crypto/rand"
	"encoding/hex"
)

// New returns a new job id: 24 lower-case hex digits, 96 random bits.
func New() string {
	var id [12]byte
	rand.Read(id[:]) // never fails: see crypto/rand
	return hex.EncodeToString(id[:])
}
