// This file keeps the state of iterable jobs in Redis, in Sidekiq's own form: the hash
// it-JID, which Ruby's IterableJob (7.3 and later) reads and writes as well.

package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/keys"
)

// IterationTTL is how long a state outlives its last write, as in Sidekiq 7. Sidekiq 8
// counts from the first write instead, so that a job loses its place a month
// after it began; besides, the option it does that with needs Redis 7.
const IterationTTL = 30 * 24 * time.Hour

// Fields of the hash.
const (
	executions = "ex"        // integer
	cursor     = "c"         // JSON
	runtime    = "rt"        // text, with a fraction unless 0
	cancelled  = "cancelled" // integer text since the epoch
	items      = "t_done"    // integer; absent in what Ruby has begun
	ofItems    = "t_total"   // integer; absent if it is not known
)

// LoadIteration reads the state of a job; the zero Iteration if there is none. A number
// that is none counts as 0, as it does in Ruby.
func LoadIteration(ctx context.Context, rdb redis.Cmdable, jid string) (troupe.Iteration, error) {
	all, err := LoadIterations(ctx, rdb, jid)
	if err != nil {
		return troupe.Iteration{}, fmt.Errorf("load the state of an iterable job: %w", err)
	}
	return all[0], nil
}

// LoadIterations reads the states of jobs, in their order.
func LoadIterations(ctx context.Context, rdb redis.Cmdable, jids ...string) ([]troupe.Iteration, error) {
	read := make([]*redis.MapStringStringCmd, len(jids))
	_, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, jid := range jids {
			read[i] = pipe.HGetAll(ctx, keys.Iteration(jid))
		}
		return nil
	})
	all := make([]troupe.Iteration, len(jids))
	for i, r := range read {
		switch rerr := r.Err(); {
		case rerr == nil:
			all[i] = iterationOf(r.Val())
		case len(jids) == 1 || !redis.HasErrorPrefix(rerr, "WRONGTYPE"): // of many, one that is no hash is no state
			return nil, rerr
		default:
			err = nil
		}
	}
	return all, err
}

// iterationOf is the state that is in a hash.
func iterationOf(fields map[string]string) troupe.Iteration {
	it := troupe.Iteration{Cancelled: timeOf(fields[cancelled])}
	it.Executions, _ = strconv.Atoi(fields[executions])
	if c := fields[cursor]; c != "" {
		it.Cursor = json.RawMessage(c)
	}
	it.Done, it.Total = number(fields[items]), number(fields[ofItems])
	if s, err := strconv.ParseFloat(fields[runtime], 64); err == nil && s > 0 && s < math.MaxInt64/1e9 {
		it.Runtime = time.Duration(s * 1e9)
	}
	return it
}

// SaveIteration writes the state and returns when the job was cancelled, zero if it was
// not. The cancellation itself is never written.
func SaveIteration(ctx context.Context, rdb redis.Cmdable, jid string, it troupe.Iteration) (time.Time, error) {
	key := keys.Iteration(jid)
	var asked *redis.StringCmd
	_, err := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, key, IterationFields(it)...)
		p.Expire(ctx, key, IterationTTL)
		asked = p.HGet(ctx, key, cancelled)
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) { // Nil: not cancelled
		return time.Time{}, fmt.Errorf("save the state of an iterable job: %w", err)
	}
	return timeOf(asked.Val()), nil
}

// IterationFields are the names and values that a state has in its hash.
func IterationFields(it troupe.Iteration) []any {
	c := it.Cursor
	if c == nil {
		c = json.RawMessage("null")
	}
	all := []any{executions, it.Executions, cursor, []byte(c), runtime, text(it.Runtime)}
	if it.Done > 0 {
		all = append(all, items, it.Done)
	}
	if it.Total > 0 {
		all = append(all, ofItems, it.Total)
	}
	return all
}

// number is a number of items; 0 of a text that is none.
func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return max(0, n)
}

// DeleteIterations forgets the states of jobs that will not run again.
func DeleteIterations(ctx context.Context, rdb redis.Cmdable, jids ...string) error {
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, jid := range jids {
			p.Unlink(ctx, keys.Iteration(jid)) // one each: in a cluster they live apart
		}
		return nil
	})
	return err
}

// CancelIteration asks a job to end, whether it runs, waits or is to be retried, and
// returns when that was first asked.
func CancelIteration(ctx context.Context, rdb redis.Cmdable, jid string, now time.Time) (time.Time, error) {
	key := keys.Iteration(jid)
	var first *redis.StringCmd
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.HSetNX(ctx, key, cancelled, now.Unix())
		first = p.HGet(ctx, key, cancelled)
		p.Expire(ctx, key, IterationTTL)
		return nil
	})
	if err != nil {
		return time.Time{}, err
	}
	return timeOf(first.Val()), nil
}

// timeOf reads the field cancelled. Whatever is in it, the job is cancelled.
func timeOf(text string) time.Time {
	if text == "" {
		return time.Time{}
	}
	s, _ := strconv.ParseInt(text, 10, 64)
	return time.Unix(s, 0).UTC()
}

// text is the text of a run time as Ruby writes it: the integer 0 before a run
// has ended, after that always with a fraction.
func text(d time.Duration) string {
	if d <= 0 {
		return "0"
	}
	text := strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
