package supervisor

import (
	"errors"
	"fmt"
	"time"
)

// Spec describes a strategy. The zero value is that of Default: 20 restarts a minute, backoff
// 100 ms to 5 s.
type Spec struct {
	// Intensity restarts within Period are allowed for all children together;
	// one more and the supervisor escalates. 0 means 20, −1 allows none.
	Intensity int
	Period    time.Duration // 0 means 1 min
	Backoff   Backoff       // waits between restarts

	// Replace gives a failed child a replacement instead of a restart: it is
	// stopped, and after the backoff its supervisor starts a fresh actor under the
	// same path. What waited in the mailbox is gone, as with OTP's new process; a
	// restart in place keeps it. Both spend the same budget.
	Replace bool

	// Decide chooses the directive for a failure; nil means DefaultDecider. It runs
	// in a goroutine of its own while the supervisor waits, one second at most.
	// Failures that come meanwhile wait. A decider that panics, hangs or answers
	// nonsense is overruled by DefaultDecider. Supervisors that have the same strategy
	// call it concurrently.
	Decide func(Failure) Directive
}

// validate reports every fault of s, joined; each names the field, the value and
// what was expected. A strategy made from a faulty Spec takes what is negative
// for zero; the daemon refuses to start with it.
func (s Spec) validate() error {
	var errs []error
	check := func(ok bool, field string, value any, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("supervisor: %s is %v, expected %s", field, value, want))
		}
	}
	const duration = "a positive duration, or 0"
	b := s.Backoff
	check(s.Intensity >= -1, "Intensity", s.Intensity, "a number of restarts, 0 for 20, or -1 for none")
	check(s.Period >= 0, "Period", s.Period, duration+" for 1m0s")
	check(b.Max >= 0, "Backoff.Max", b.Max, duration+" for 1h")
	check(b.Max <= 0 || b.Min < 0 || b.Max >= b.Min, "Backoff.Max", b.Max, fmt.Sprintf("at least Backoff.Min (%s)", b.Min))
	check(b.Max <= 0 || b.Min != 0, "Backoff.Min", b.Min, fmt.Sprintf("a positive duration beside Backoff.Max (%s)", b.Max))
	check(b.Jitter >= 0 && b.Jitter <= 1, "Backoff.Jitter", b.Jitter, "a share from 0 to 1") // false for NaN, too
	return errors.Join(errs...)
}
