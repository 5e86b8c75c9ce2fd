package troupe

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Encryption has the keys that seal the last argument of jobs, so that Redis, its backups and the pages never have
// it in clear: see Options.Encrypt. The zero value has none. It prints as its versions, never as its keys.
type Encryption struct {
	// Keys are 32 random bytes each, by their version from 1. What is sealed names the version of its key; keys
	// stay here until no job has one any more.
	Keys map[int][]byte

	// Active is the version that seals; 0 is the highest. All others only open.
	Active int
}

// KeySize is the length of a key of Encryption in bytes.
const KeySize = 32

// Validate tells what is wrong with e.
func (e Encryption) Validate() error {
	for _, version := range e.Versions() {
		if version < 1 {
			return fmt.Errorf("Encryption.Keys has version %d, expected versions from 1", version)
		}
		if n := len(e.Keys[version]); n != KeySize {
			return fmt.Errorf("Encryption.Keys[%d] has %d bytes, expected %d", version, n, KeySize)
		}
	}
	if _, ok := e.Keys[e.Active]; e.Active != 0 && !ok {
		return fmt.Errorf("Encryption.Active is %d, expected a version that Keys has, or 0 for the highest", e.Active)
	}
	return nil
}

// Versions are those of the keys, the lowest first.
func (e Encryption) Versions() []int { return slices.Sorted(maps.Keys(e.Keys)) }

// Sealing is the version that seals; 0 if there is no key.
func (e Encryption) Sealing() int {
	if e.Active != 0 || len(e.Keys) == 0 {
		return e.Active
	}
	return slices.Max(e.Versions())
}

// String is "none", or "key versions 1, 2; 2 seals".
func (e Encryption) String() string {
	var list []string
	for _, version := range e.Versions() {
		list = append(list, fmt.Sprint(version))
	}
	switch len(list) {
	case 0:
		return "none"
	case 1:
		return "key version " + list[0]
	}
	return fmt.Sprintf("key versions %s; %d seals", strings.Join(list, ", "), e.Sealing())
}

// Format is String for every verb of package fmt.
func (e Encryption) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, e.String()) }

// MarshalText is String, for JSON and package log/slog.
func (e Encryption) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// SealedError is why a job has failed whose last argument is sealed and could not be opened: the daemon has no key of
// this version, another one than that which has sealed, or the text was altered. The handler did not run. The job is
// retried, and kept in the dead set after its last retry, also if it asks to be dropped, so that it runs once the key is there.
type SealedError struct {
	Version string // of the key, as the job names it
	Reason  string // with the versions that are there
}

func (e *SealedError) Error() string {
	return fmt.Sprintf("the last argument is sealed (key version %s) and was not opened: %s", e.Version, e.Reason)
}

// ErrorClass returns "Troupe::Sealed".
func (e *SealedError) ErrorClass() string { return "Troupe::Sealed" }
