package retry

import rules "github.com/troupehq/troupe/retry"

// Rules are those of another system.
type Rules = rules.Rules

// Failed is a failure as Rules see it.
type Failed = rules.Failed

// failed is the failure as Rules see it.
func (f *failure) failed() Failed {
	return Failed{Payload: f.m, Queue: f.FetchedFrom, Err: f.Err, Message: message(f.Err), Delayed: f.asked.Delay > 0, Now: f.now}
}
