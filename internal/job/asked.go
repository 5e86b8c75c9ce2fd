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

// IsInterrupted reports whether err ends a run that is to go on later (troupe.ErrInterrupted).
func IsInterrupted(err error) bool { return errchain.Is(err, troupe.ErrInterrupted) }
