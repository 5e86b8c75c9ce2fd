// Package limits has the bounds and defaults that a configuration is checked against, too.
package limits

import (
	"cmp"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

const (
	// MaxWaiters is how many connections of a capsule wait for pushes at most: Redis has few
	// of them, 10,000 by default.
	MaxWaiters = 8

	// Bytes bounds the payloads of one call where nothing else is said.
	Bytes = 1 << 20

	// Window is how long a recovery counts where nothing else is said.
	Window = 72 * time.Hour
)

// Queues tells what is wrong with a list of queues: none, or a name that is empty or not
// UTF-8. The error names the offending queue.
func Queues(names []string) error {
	if len(names) == 0 {
		return errors.New("queues: none listed, expected at least one queue")
	}
	for i, name := range names {
		if name == "" {
			return fmt.Errorf("queues: name %d of %d is empty", i+1, len(names))
		}
		if !utf8.ValidString(name) {
			return fmt.Errorf("queues: name %q is not UTF-8", name)
		}
	}
	return nil
}

// Poison fills in the defaults of a poison policy for what is 0; -1 is none.
func Poison(recoveries int, within time.Duration, suspect int) (int, time.Duration, int) {
	recoveries = cmp.Or(recoveries, 3)
	return recoveries, cmp.Or(within, Window), cmp.Or(suspect, max(1, recoveries-1))
}
