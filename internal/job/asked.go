package job

import (
	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/errchain"
)

// AskedBy is what err asks for, the zero value for nothing.
func AskedBy(err error) troupe.OutcomeError {
	if asked, ok := errchain.As[*troupe.OutcomeError](err); ok && asked != nil {
		return *asked
	}
	return troupe.OutcomeError{}
}

// IsPark tells whether err asks for a park (troupe.Park). Such a job has not failed: it is not
// to be counted, and nobody is to be told of a failure.
func IsPark(err error) bool { return err != nil && AskedBy(err).Park }

// IsInterrupted tells whether err ends a run that is to go on later (troupe.ErrInterrupted).
func IsInterrupted(err error) bool { return errchain.Is(err, troupe.ErrInterrupted) }
