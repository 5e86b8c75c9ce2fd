package actors

import (
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/joblog"
	"github.com/troupehq/troupe/retry"
)

// park puts the job off, as its handler asked. It has not failed: no callback
// of the class, no error handler and no death handler hears of it.
func (e *execution) park() {
	c := e.c
	now := time.Now()
	dec := c.d.policy.Decide(now, nil, retry.Failure{
		Raw: e.w.unit.Payload, FetchedFrom: e.w.unit.Queue, Err: e.err,
	})
	until := time.UnixMicro(int64(dec.Score * 1e6))
	line := joblog.Err(e.line(zerolog.InfoLevel, dec.Action.String()).Float64("parked_s", until.Sub(now).Seconds()), e.err)
	e.store(dec, func() {
		line.Msg("job parked")
		if c.d.events.wanted.Load() {
			c.d.events.publish(JobParked{e.event(), until, e.err})
		}
	})
}
