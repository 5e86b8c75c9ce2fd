// Package outcome reads what a handler asked for with its error.
package outcome

import (
	"errors"

	"github.com/troupehq/troupe"
)

// Of is what err asks for, the zero value for nothing. The errors of the chain are user code;
// one that panics asked for nothing.
func Of(err error) (outcome troupe.OutcomeError) {
	defer func() {
		if recover() != nil {
			outcome = troupe.OutcomeError{}
		}
	}()
	if asked, ok := errors.AsType[*troupe.OutcomeError](err); ok && asked != nil {
		return *asked
	}
	return outcome
}

// IsPark tells whether err asks for a park (troupe.Park). Such a job has not failed: it is not
// to be counted, and nobody is to be told of a failure.
func IsPark(err error) bool { return err != nil && Of(err).Park }

// IsInterrupted tells whether err ends a run that is to go on later (troupe.ErrInterrupted).
// One that panics says no.
func IsInterrupted(err error) (yes bool) {
	defer func() {
		if recover() != nil {
			yes = false
		}
	}()
	return errors.Is(err, troupe.ErrInterrupted)
}
