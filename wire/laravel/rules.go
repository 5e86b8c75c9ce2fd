package laravel

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/retry"
)

// MaxAttemptsError is the failure of a job that was taken more often than it may be tried,
// or too late: it is not run. Its process may have died under it before.
type MaxAttemptsError struct {
	Attempt, Limit int64     // Limit counts if Until is zero
	Until          time.Time // until when it may be tried; zero with Limit
}

func (e *MaxAttemptsError) Error() string {
	if !e.Until.IsZero() {
		return "attempted too late: it was to be tried until " + e.Until.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("attempted too many times: attempt %d of at most %d", e.Attempt, e.Limit)
}

// limit is how often a job may be tried; endless is without end, which in a job only the number 0 says:
// one with less than 1 is never run.
func (s *system) limit(p *troupe.Payload) (limit float64, endless bool) {
	if n, ok := number(p, "maxTries"); ok {
		raw, _ := p.Get("maxTries")
		return n, string(raw) == "0"
	}
	return float64(s.Tries), s.Tries < 0
}

// until is the time until which a job may be tried, in seconds; 0 is none.
func until(p *troupe.Payload) (float64, bool) {
	n, ok := number(p, "retryUntil")
	if !ok {
		n, _ = number(p, "timeoutAt") // Laravel 5.5 to 7
	}
	return n, n != 0
}

// dropUntil drops that time.
func dropUntil(p *troupe.Payload) {
	for _, key := range []string{"retryUntil", "timeoutAt"} {
		if _, ok := p.Get(key); ok {
			p.Set(key, json.RawMessage("null"))
		}
	}
}

// check is wire.Wire.Check: Laravel's test before a run.
func (s *system) check(p *troupe.Payload, now time.Time) error {
	made, _ := attempts(p)
	if end, ok := until(p); ok {
		if float64(now.Unix()) > end {
			return &MaxAttemptsError{Attempt: made + 1, Until: time.Unix(int64(end), 0)}
		}
		return nil
	}
	if limit, endless := s.limit(p); !endless && float64(made+1) > limit {
		return &MaxAttemptsError{Attempt: made + 1, Limit: int64(limit)}
	}
	return nil
}

// retries is retry.Rules.Retries: Laravel's tests after an exception. A job whose handler asked for
// a wait was released: that is no exception, but an attempt.
func (s *system) retries(in retry.Failed) (left, never bool) {
	p := in.Payload
	if fail, _ := p.Get("failOnTimeout"); string(fail) == "true" && errchain.Is(in.Err, troupe.ErrJobTimeout) {
		return false, false
	}
	if most, ok := number(p, "maxExceptions"); ok && !in.Delayed {
		if met, _ := number(p, exceptions); met+1 >= most {
			return false, false
		}
	}
	if end, ok := until(p); ok {
		return float64(in.Now.Unix()) < end, false
	}
	made, _ := attempts(p)
	limit, endless := s.limit(p)
	return endless || float64(made+1) < limit, false
}

// exceptions is a field of ours: how many attempts here ended with an exception. Laravel counts
// its own in its cache.
const exceptions = "troupeExceptions"

// record is retry.Rules.Record.
func record(in retry.Failed) (count int64) {
	p := in.Payload
	made, _ := attempts(p)
	p.SetInt("attempts", made+1)
	if _, ok := number(p, "maxExceptions"); ok && !in.Delayed {
		met, _ := number(p, exceptions)
		p.SetInt(exceptions, int64(met)+1)
	}
	return made
}

// wait is retry.Rules.Wait: the entry of this attempt of backoff, or the last one. A job that was
// pushed with a delay and has no backoff waits for that again, as since Laravel 12.11.
func (s *system) wait(in retry.Failed, count int64, _ uint64) float64 {
	for _, key := range []string{"backoff", "delay"} {
		raw, ok := in.Payload.Get(key)
		if !ok || string(raw) == "null" {
			continue
		}
		text, is := in.Payload.String(key)
		if !is {
			text = strings.Trim(string(raw), "[]")
		}
		list := strings.Split(text, ",")
		return max(leading(strings.Trim(list[min(count, int64(len(list)-1))], " \"")), 0)
	}
	if len(s.Backoff) == 0 {
		return 0
	}
	return s.Backoff[min(count, int64(len(s.Backoff)-1))].Seconds()
}

// leading is the whole number that a text begins with, as PHP's (int); 0 if it begins with none.
func leading(text string) float64 {
	text = text[:min(len(text), 32)]
	end := strings.IndexFunc(text, func(r rune) bool { return !strings.ContainsRune("0123456789+-.eE", r) })
	if end >= 0 {
		text = text[:end]
	}
	for ; text != ""; text = text[:len(text)-1] {
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			return math.Trunc(n)
		}
	}
	return 0
}

// relayed is what a worker of Laravel is to fail, made of the row of a failed job; nil if there is
// no such worker, or it would destroy the job.
func (s *system) relayed(row []byte) []byte {
	if s.Relay == "" {
		return nil
	}
	f, err := parseRow(row)
	if err != nil {
		return nil
	}
	p, err := troupe.ParsePayload(f.Payload)
	if err != nil || destroyed(f.Payload) != nil {
		return nil
	}
	made, ok := attempts(p)
	if !ok {
		return nil
	}
	limit, ok := number(p, "maxTries")
	if !ok || limit < 1 {
		limit = 1
		p.SetInt("maxTries", 1)
	}
	p.SetInt("attempts", max(made, int64(limit)))
	dropUntil(p)
	if id, _ := p.String("uuid"); id == "" {
		p.SetString("uuid", uuid.NewString())
	}
	return p.Bytes()
}
