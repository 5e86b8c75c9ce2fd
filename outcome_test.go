package troupe_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/troupehq/troupe"
)

func TestAnOutcomeIsAnErrorWithItsReason(t *testing.T) {
	reason := errors.New("the bank is closed")
	for _, tt := range []struct {
		err  error
		want troupe.OutcomeError
		text string
	}{
		{troupe.Discard(nil), troupe.OutcomeError{Discard: true}, "job discarded"},
		{troupe.Kill(nil), troupe.OutcomeError{Kill: true}, "job killed"},
		{troupe.RetryIn(time.Minute, nil), troupe.OutcomeError{Delay: time.Minute}, "job to be retried in 1m0s"},
		{troupe.Park(time.Minute, nil), troupe.OutcomeError{Park: true, Delay: time.Minute}, "job parked for 1m0s"},
		{troupe.Park(-time.Minute, nil), troupe.OutcomeError{Park: true}, "job parked for 0s"},
		{troupe.Park(time.Minute, reason), troupe.OutcomeError{Park: true, Delay: time.Minute, Err: reason}, "the bank is closed"},
	} {
		asked, ok := errors.AsType[*troupe.OutcomeError](fmt.Errorf("charge: %w", tt.err))
		if !ok || *asked != tt.want || asked.Error() != tt.text {
			t.Errorf("%q: %+v", tt.err, *asked)
		}
		if tt.text == reason.Error() && !errors.Is(tt.err, reason) {
			t.Errorf("%q has lost its reason", tt.err)
		}
	}
}
