package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing wrong with the configuration.
type Fault struct {
	File  string // as it was given; "" for flags and environment variables
	Line  int    // from 1; 0 for the file as a whole
	Field string // path of the key ("capsules.ledger.queues[1]"), flag ("-c") or variable
	Value string // as found, quoted if it is text; never a password
	Want  string // what was expected

	// Ignored is, for a warning, why the field has no effect; Value and Want are then empty.
	Ignored string
}

// Error returns one line: `troupe.yml:3: timeout is "soon", expected …`, or
// "sidekiq.yml:2: require is ignored: …".
func (f Fault) Error() string {
	var b strings.Builder
	if f.File != "" {
		b.WriteString(f.File)
		if f.Line > 0 {
			fmt.Fprintf(&b, ":%d", f.Line)
		}
		b.WriteString(": ")
	}
	if f.Ignored != "" {
		fmt.Fprintf(&b, "%s is ignored: %s", f.Field, f.Ignored)
	} else {
		fmt.Fprintf(&b, "%s is %s, expected %s", f.Field, f.Value, f.Want)
	}
	return b.String()
}

// Faults is everything wrong with the configuration, in the order of the lines.
type Faults []Fault

// mostFaults is how many faults are told: of a file that is something else there are thousands.
const mostFaults = 100

// Error returns one line for each fault, and one for those that are too many.
func (f Faults) Error() string {
	var lines []string
	for _, x := range f[:min(len(f), mostFaults)] {
		lines = append(lines, x.Error())
	}
	if more := len(f) - mostFaults; more > 0 {
		lines = append(lines, fmt.Sprintf("%d more faults", more))
	}
	return strings.Join(lines, "\n")
}

// err sorts f and returns it as an error; nil if there are no faults.
func (f Faults) err() error {
	if len(f) == 0 {
		return nil
	}
	slices.SortStableFunc(f, func(a, b Fault) int { return cmp.Compare(a.Line, b.Line) })
	return f
}
