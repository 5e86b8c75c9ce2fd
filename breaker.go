package troupe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupehq/troupe/internal/jobctx"
)

// Breaker is the circuit breaker of a limit, in all processes together; a limit with By or Key has one for each key. When so many jobs
// in a row have failed, the limit rests: nobody is let in. When the rest is over one job is let in, the probe, and the limit rests anew. If
// the probe is done the others are let in; if it fails, the limit rests for that time from then on.
//
// A job that is done, under the same key, ends the row. So does an hour (and Rest) without a failure. While the limit rests, only the ends
// of its probes count.
type Breaker struct {
	// Failures in a row open the breaker. 0: only Rest does.
	Failures int

	// Rest is how long the limit rests; unset, a minute.
	Rest time.Duration

	// Counts reports whether the error of a job is a failure of what the limit protects. It may be called concurrently. If it is
	// nil or panics, all errors count but those of Discard and Kill, which are verdicts on the job. An error that does not count
	// leaves the breaker as it is, and so does a job that was parked, moved, interrupted, cancelled or requeued. If such a job is the
	// probe, the next probe is let in when the rest is over.
	Counts func(err error) bool
}

func restable(d time.Duration) bool { return d >= time.Millisecond && d <= 365*24*time.Hour }

// Rest makes a limit rest for d in all processes. ctx belongs to a running job, and limit is the name of a limit of that job with a
// Breaker. With By or Key only the key of the job rests. It is for an API that answers 429 and says in Retry-After when it may be
// called again. The rest begins in the step that ends the run, whatever its outcome; an error of the job does then not count as a
// failure. Of several calls the longest counts, and none makes a rest shorter.
//
// It returns an error if ctx is not of a running job, if the job is not under a limit of that name, if the limit has no Breaker, and if
// d is not a millisecond to a year. It may be called concurrently.
func Rest(ctx context.Context, limit string, d time.Duration) error {
	if !restable(d) {
		return fmt.Errorf("rest of limit %q: the time is %s, expected a millisecond to a year", limit, d)
	}
	job, ok := ctx.Value(jobctx.Rests{}).(interface {
		RestLimit(name string, d time.Duration) error
	})
	if !ok {
		return fmt.Errorf("rest of limit %q: %w", limit, errNoJob)
	}
	if err := job.RestLimit(limit, d); err != nil {
		return fmt.Errorf("rest of limit %q: %w", limit, err)
	}
	return nil
}

var errNoJob = errors.New("the context is not that of a running job of a daemon")
