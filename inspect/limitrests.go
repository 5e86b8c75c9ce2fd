package inspect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
)

// Resting is how many of its rules rest: their breakers are open.
func (l *Limit) Resting() (n int) {
	for _, r := range l.Rules {
		if !r.Rests.IsZero() {
			n++
		}
	}
	return n
}

// Rest makes the rule rest for d from now on, in all processes, however long it was to rest before. d is a millisecond to a year. A rule
// that rests lets no job in; after the rest it lets in one job, the probe: see troupe.Breaker. With a d of 0 it ends a rest, and lets the
// held jobs in. It reports whether anything has changed: not if d is 0 and the rule did not rest. It is an error if the limit has no Breaker.
func (r *LimitRule) Rest(ctx context.Context, d time.Duration) (bool, error) {
	fail := func(err error) (bool, error) { return false, fmt.Errorf("limit %s: rest: %w", r.ID, err) }
	if d != 0 && (d < time.Millisecond || d > 365*24*time.Hour) {
		return fail(fmt.Errorf("the time is %s, expected a millisecond to a year, or 0", d))
	}
	changed, err := job.Rest(ctx, orNone(r.i).db(), r.base, r.ID, d)
	if err == nil && d > 0 && !changed {
		err = errors.New("it has no breaker, expected one in its configuration")
	}
	if err == nil {
		err = r.i.lookAt(ctx, r.base, r.ID)
	}
	if err != nil {
		return fail(err)
	}
	return changed, nil
}

// secondsAt is the time of a score; the zero time if it is none before the year 10000.
func secondsAt(score float64) time.Time {
	if !(score >= 0 && score < year10000) {
		return time.Time{}
	}
	return time.UnixMicro(int64(math.Round(score * 1e6))).UTC()
}

// readRests reads the breakers of rules.
func (i *Inspector) readRests(ctx context.Context, rules []*LimitRule) error {
	var cmds []redis.Cmder
	var of []*LimitRule
	for _, r := range rules {
		if r.rest {
			of, cmds = append(of, r), append(cmds, redis.NewSliceCmd(ctx, "hmget", keys.Rest(r.base, r.ID), "failures", "ends"))
		}
	}
	if len(of) == 0 {
		return nil
	}
	if err := i.pipelined(ctx, cmds); err != nil {
		return err
	}
	for n, r := range of {
		var state struct {
			Failures int64   `redis:"failures"`
			Ends     float64 `redis:"ends"`
		}
		if err := cmds[n].(*redis.SliceCmd).Scan(&state); err == nil && state.Ends > 0 {
			r.Rests = secondsAt(state.Ends)
		} else if err == nil {
			r.Failures = state.Failures
		}
	}
	return nil
}
