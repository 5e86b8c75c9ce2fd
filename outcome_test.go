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
		err    error
		action troupe.Action
		delay  time.Duration
		text   string
	}{
		{troupe.Discard(nil), troupe.ActionDiscard, 0, "job discarded"},
		{troupe.Kill(nil), troupe.ActionKill, 0, "job killed"},
		{troupe.RetryIn(time.Minute, nil), troupe.ActionRetryIn, time.Minute, "job to be retried in 1m0s"},
		{troupe.Park(time.Minute, nil), troupe.ActionPark, time.Minute, "job parked for 1m0s"},
		{troupe.Park(-time.Minute, nil), troupe.ActionPark, 0, "job parked for 0s"},
		{troupe.Park(time.Minute, reason), troupe.ActionPark, time.Minute, "the bank is closed"},
	} {
		asked, ok := errors.AsType[*troupe.OutcomeError](fmt.Errorf("charge: %w", tt.err))
		if !ok || asked.Action != tt.action || asked.Delay != tt.delay || asked.Error() != tt.text {
			t.Errorf("%q: action %d, delay %s", tt.err, asked.Action, asked.Delay)
		}
		if tt.text == reason.Error() && !errors.Is(tt.err, reason) {
			t.Errorf("%q has lost its reason", tt.err)
		}
	}
}
