package retry

import (
	"time"

	"github.com/troupehq/troupe/internal/scores"
)

// park puts the job off without a trace in its bytes. What leaves the schedule
// set goes to the queue that the job names: only if that is not the one it was
// fetched from (a job moved by hand, or without the field) is the field set.
func (f *failure) park(d time.Duration) Decision {
	wait := max(d, 0).Seconds()
	dec := Decision{Action: Park, Reason: becauseParked, RetryCount: notCounted, Score: scores.Of(f.now) + wait, Wait: wait}
	if f.m.Queue() == f.FetchedFrom {
		return dec
	}
	f.m.SetString("queue", f.FetchedFrom)
	if f.m.ValidUTF8() { // else it cannot be written back
		dec.Payload = f.m.Bytes()
	}
	return dec
}
