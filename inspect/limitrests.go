package inspect

import (
	"context"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

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
