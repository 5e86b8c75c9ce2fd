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

	// Counts tells whether the error of a job is a failure of what the limit protects. It may be called concurrently; one that
	// panics counts as unset. Unset, all are but those of Discard and Kill, which are verdicts on the job. One that is not tells the
	// breaker nothing, as do jobs that were parked, moved, interrupted, cancelled or requeued; a probe of which nothing is known costs
	// one Rest.
	Counts func(err error) bool
}

func restable(d time.Duration) bool { return d >= time.Millisecond && d <= 365*24*time.Hour }

// Rest has a limit of the running job that ctx belongs to rest for d, in all processes, in the step that ends the run, whatever its
// outcome: for an API that answers 429 and says in Retry-After when it may be asked again. What the job returns does not count as a
// failure then. The limit must have a Breaker; with By or Key the jobs of the same key rest. Of several calls the longest
// counts, and none makes a rest shorter.
//
// It is an error if ctx is not of a running job, if the job is not under a limit of that name, if that has no Breaker, and if d is not a
// millisecond to a year. It may be called concurrently.
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
