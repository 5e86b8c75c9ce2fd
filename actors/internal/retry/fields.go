package retry

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/scores"
)

// limit returns how many retries the job may have; never is true if it is not to be
// retried at all. If the field retry is no number, but true, null, missing or another value that Ruby takes
// for true, the class decides the number.
func (f *failure) limit() (retries int64, never bool) {
	raw, _ := f.m.Get("retry")
	switch text := string(raw); {
	case f.sealed && !isInteger(text): // it waits for its key
		return max(int64(orDefault(f.MaxRetries, limits.Retries)), 0), false
	case text == "false":
		return 0, true
	case isInteger(text):
		n, _ := strconv.ParseInt(text, 10, 64) // out of range: the nearest int64
		return n, false
	}
	_, own := f.m.Number("retry_for") // the payload's own rule
	if n, set := f.Options.Retries.Limit(); set && !own {
		return int64(n), n < 0
	}
	return max(int64(orDefault(f.MaxRetries, limits.Retries)), 0), false
}

// keep tells whether the job goes to the dead set at its end.
func (f *failure) keep() bool {
	if f.sealed {
		return true
	}
	raw, _ := f.m.Get("dead")
	if text := string(raw); f.Options.Dead != nil && (text == "" || text == "null") {
		return *f.Options.Dead
	}
	return string(raw) != "false"
}

// record edits the fields of this failure into f.m, in Sidekiq's order, and sets
// f.count and f.mute.
func (f *failure) record() {
	if f.Rules != nil {
		f.count = f.Rules.Record(f.failed())
		return
	}
	pushable(f.m)
	queue := cmp.Or(f.Options.RetryQueue, f.FetchedFrom)
	if q, ok := f.m.String("retry_queue"); ok && q != "" {
		queue = q
	}
	if was, ok := f.m.String("queue"); !ok || was != queue {
		f.m.SetString("queue", queue)
		f.mute = !utf8.ValidString(queue) // what is stored would be another name
	}
	f.m.SetString("error_message", message(f.Err))
	f.m.SetString("error_class", class(f.Err))
	last, again := f.lastCount()
	now := f.now.Truncate(time.Microsecond) // such a time is written in half the time
	if again {
		// A job that has no first failure on record would be lost by a peer.
		if _, readable := f.m.Time("failed_at"); !readable {
			f.m.SetTime("failed_at", now, f.Timestamps)
		}
		f.m.SetTime("retried_at", now, f.Timestamps)
		f.count = last + 1
	} else {
		f.m.SetTime("failed_at", now, f.Timestamps)
	}
	f.m.SetInt("retry_count", f.count)
	if text := packBacktrace(f.Err, f.backtraceLines()); text != "" {
		f.m.SetString("error_backtrace", text)
	}
}

// lastCount is the stored retry_count, from -1 on (a first failure that was retried by hand); again
// is false before the first failure. What is no number at all counts as -1: something was there, so it
// has failed before.
func (f *failure) lastCount() (n int64, again bool) {
	raw, ok := f.m.Get("retry_count")
	return int64(f.m.Failures()) - 1, ok && string(raw) != "null"
}

// exhausted tells whether this failure was the last one allowed.
func (f *failure) exhausted(limit int64) bool {
	window, ok := f.m.Number("retry_for")
	if !ok {
		return f.count >= limit
	}
	first, ok := f.m.Time("failed_at")
	if !ok {
		first = f.now
	}
	return window <= 0 || scores.Of(first)+window < scores.Of(f.now)
}

// backtraceLines returns how many lines to store: 0 none, below 0 all.
func (f *failure) backtraceLines() int {
	raw, _ := f.m.Get("backtrace")
	switch string(raw) {
	case "", "null":
		return f.Options.Backtrace
	case "true":
		return -1
	}
	n, _ := f.m.Number("backtrace")
	return int(min(max(n, -1), math.MaxInt32))
}

// isInteger tells whether JSON text is a number without fraction and exponent.
func isInteger(text string) bool {
	digits := strings.TrimPrefix(text, "-")
	return digits != "" && strings.Trim(digits, "0123456789") == ""
}
