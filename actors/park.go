package actors

import (
	"time"

	"github.com/troupehq/troupe/retry"
)

// park puts the job off, as its handler asked. It has not failed: no callback
// of the class, no error handler and no death handler hears of it.
func (e *execution) park() {
	e.store(e.c.d.policy.Decide(time.Now(), 0, retry.Failure{ // no jitter
		Raw: e.w.unit.Payload, FetchedFrom: e.w.unit.Queue, Err: e.err,
	}))
}
