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

// Late is why no run of p may start at the time now; nil if one may.
func Late(p *troupe.Payload, class *troupe.Options, now time.Time) error {
	at := time.Time{}
	if s, ok := seconds(p, "t_deadline"); ok {
		at = time.UnixMicro(int64(min(s*1e6, math.MaxInt64/2)))
	} else if created, ok := p.Time("created_at"); ok && class != nil && class.ExpireAfter > 0 {
		at = created.Add(class.ExpireAfter)
	}
	if at.IsZero() || !now.After(at) {
		return nil
	}
	return troupe.Kill(&troupe.ExpiredError{At: at})
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
