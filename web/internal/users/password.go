// Package users is a file of those who may sign in: people with hashes of their passwords, and programs
// with digests of their tokens.
package users

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Passwords are hashed by PBKDF2 with SHA-256: "pbkdf2-sha256$ITERATIONS$SALT$HASH".
const (
	passwordScheme  = "pbkdf2-sha256"
	Iterations      = 600_000 // of new ones
	LeastIterations = 100_000
	mostIterations  = 10_000_000 // a log-in takes seconds
	leastPassword   = 10         // bytes
	mostPassword    = 1000
	MostName        = 100
	tokenScheme     = "sha256"
	tokenPrefix     = "troupe_" // by which people and scanners know it
)

// password is the hash of one.
type password struct {
	iterations int
	salt, hash []byte
}

func newPassword(text string, iterations int) password {
	p := password{iterations: iterations, salt: make([]byte, 16)}
	_, _ = rand.Read(p.salt) // it never fails
	p.hash = p.of(text)
	return p
}

func (p password) of(text string) []byte {
	hash, err := pbkdf2.Key(sha256.New, text, p.salt, p.iterations, sha256.Size)
	if err != nil { // a mode of Go that takes approved cryptography only, and that is this
		panic(err)
	}
	return hash
}

// matches takes the same time for all texts.
func (p password) matches(text string) bool {
	return subtle.ConstantTimeCompare(p.of(text), p.hash) == 1
}

func (p password) String() string {
	b := base64.RawStdEncoding
	return fmt.Sprintf("%s$%d$%s$%s", passwordScheme, p.iterations, b.EncodeToString(p.salt), b.EncodeToString(p.hash))
}

// parsePassword parses what String returns. Its errors do not contain the hash.
func parsePassword(text string) (p password, err error) {
	parts := strings.Split(text, "$")
	if len(parts) != 4 || parts[0] != passwordScheme {
		return p, fmt.Errorf("has %d parts, expected %s$ITERATIONS$SALT$HASH as of: troupe web user", len(parts), passwordScheme)
	}
	if p.iterations, err = strconv.Atoi(parts[1]); err != nil || p.iterations < LeastIterations || p.iterations > mostIterations {
		return p, fmt.Errorf("has %q iterations, expected %d to %d", parts[1], LeastIterations, mostIterations)
	}
	p.salt, err = base64.RawStdEncoding.DecodeString(parts[2])
	if err != nil || len(p.salt) < 16 {
		return p, fmt.Errorf("has a salt of %d bytes, expected at least 16 in base64", len(p.salt))
	}
	if p.hash, err = base64.RawStdEncoding.DecodeString(parts[3]); err != nil || len(p.hash) != sha256.Size {
		return p, fmt.Errorf("has a hash of %d bytes, expected %d in base64", len(p.hash), sha256.Size)
	}
	return p, nil
}

// UserLine returns the line of somebody who signs in with a password, of which it has a hash that so
// many iterations make.
func UserLine(name, role, text string, iterations int) (string, error) {
	if err := CheckName(name); err != nil {
		return "", err
	}
	if len(text) < leastPassword || len(text) > mostPassword {
		return "", fmt.Errorf("the password has %d bytes, expected %d to %d", len(text), leastPassword, mostPassword)
	}
	return fmt.Sprintf("user %s %s %s", name, role, newPassword(text, iterations)), nil
}

// TokenLine returns a new token for a program, and its line, which has a digest of it. A zero time is
// no end.
func TokenLine(name, role string, expires time.Time) (line, token string, err error) {
	if err := CheckName(name); err != nil {
		return "", "", err
	}
	end := "never"
	if !expires.IsZero() {
		end = expires.UTC().Format(time.RFC3339)
	}
	token = tokenPrefix + rand.Text() // 130 bits
	return fmt.Sprintf("token %s %s %s %s$%s", name, role, end, tokenScheme, Digest(token)), token, nil
}

// Digest is the SHA-256 of a text that cannot be guessed, such as a token: no salt and no rounds are needed.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// CheckName tells what is wrong with a name.
func CheckName(name string) error {
	if name == "" || len(name) > MostName || strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) || name[0] == '#' {
		return fmt.Errorf("name is %q, expected 1 to %d bytes without spaces", cut(name), MostName)
	}
	return nil
}

// cut is as much of a text as an error quotes.
func cut(text string) string { return text[:min(len(text), MostName)] }
