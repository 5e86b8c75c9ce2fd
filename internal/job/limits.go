package job

import (
	"math"
	"strconv"
	"time"

	"github.com/troupehq/troupe"
)

// Timeout is how long a run of p may take; 0 is without end. The job's own field counts before
// the options of its class,
// which may be nil.
func Timeout(p *troupe.Payload, class *troupe.Options) time.Duration {
	if s, ok := seconds(p, "t_timeout"); ok {
		return time.Duration(min(s*1e9, math.MaxInt64/2))
	}
	if class == nil {
		return 0
	}
	return class.Timeout
}

// Late is why no run of p may start at the time now; nil if one may. It asks for what is to become of the job: Kill, or
// Discard for one that is dropped.
func Late(p *troupe.Payload, class *troupe.Options, now time.Time) error {
	at, drop := Expiry(p, class)
	switch {
	case at.IsZero() || !now.After(at):
		return nil
	case drop:
		return troupe.Discard(&troupe.ExpiredError{At: at})
	}
	return troupe.Kill(&troupe.ExpiredError{At: at})
}

// Expiry is when the last run of p may start, zero if it never expires, and whether it is dropped after that. The
// job's own fields count before the options of its class, which may be nil.
func Expiry(p *troupe.Payload, class *troupe.Options) (at time.Time, drop bool) {
	drop = class != nil && class.DropExpired
	if own, ok := p.Get("t_drop"); ok {
		drop = string(own) == "true"
	}
	if s, ok := seconds(p, "t_deadline"); ok {
		return time.UnixMicro(int64(min(s*1e6, math.MaxInt64/2))), drop
	}
	if s, ok := seconds(p, "expires_in"); ok { // of Sidekiq Pro, which drops it
		if since, ok := queued(p); ok {
			return since.Add(time.Duration(min(s*1e9, math.MaxInt64/2))), true
		}
	}
	if created, ok := p.Time("created_at"); ok && class != nil && class.ExpireAfter > 0 {
		return created.Add(class.ExpireAfter), drop
	}
	return time.Time{}, drop
}

// queued is when p was put into its queue for its first run: a job for later when it was due. Of a retry nobody knows it
// exactly any more; it was before its first failure.
func queued(p *troupe.Payload) (time.Time, bool) {
	at, ok := p.Time("enqueued_at")
	if !ok {
		at, ok = p.Time("created_at")
	}
	if failed, again := p.Time("failed_at"); again && (!ok || failed.Before(at)) {
		at, ok = failed, true
	}
	return at, ok
}

// seconds is a field that is a number above 0.
func seconds(p *troupe.Payload, key string) (float64, bool) {
	raw, ok := p.Get(key)
	if !ok {
		return 0, false
	}
	s, err := strconv.ParseFloat(string(raw), 64)
	return s, err == nil && s > 0
}
