// Package jobfilter chooses jobs for people.
package jobfilter

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/duration"
)

// Filter chooses jobs. The zero value chooses all; a job must meet every field that is set.
type Filter struct {
	Class string // what is shown as the class, whole
	Queue string // bare name
	Error string // in the class or the message of the last failure, in any case of letters
	Tag   string
	Since time.Time // not before
	Until time.Time // before
}

// Match tells whether it chooses the job; at is the time that it is listed with: of a set the
// score, of a queue since when the job waits.
func (f *Filter) Match(r *inspect.JobRecord, at time.Time) bool {
	if !f.Since.IsZero() && at.Before(f.Since) || !f.Until.IsZero() && !at.Before(f.Until) || f.Queue != "" && r.Queue != f.Queue {
		return false
	}
	if f.Class == "" && f.Error == "" && f.Tag == "" {
		return true
	}
	s := r.Summary()
	if f.Class != "" && s.Class != f.Class || f.Tag != "" && !slices.Contains(s.Tags, f.Tag) {
		return false
	}
	return f.Error == "" || strings.Contains(strings.ToLower(s.ErrorClass+"\n"+s.ErrorMessage), strings.ToLower(f.Error))
}

// String is the filter in words.
func (f *Filter) String() string {
	var words []string
	for _, w := range []struct{ name, value string }{{"class", f.Class}, {"queue", f.Queue}, {"error", f.Error}, {"tag", f.Tag}} {
		if w.value != "" {
			words = append(words, w.name+" "+strconv.Quote(w.value))
		}
	}
	for _, w := range []struct {
		name string
		at   time.Time
	}{{"since", f.Since}, {"until", f.Until}} {
		if !w.at.IsZero() {
			words = append(words, w.name+" "+w.at.UTC().Format(time.RFC3339))
		}
	}
	return strings.Join(words, ", ")
}

// ParseTime reads a time: RFC 3339, seconds since the epoch, or how long before now, as in
// "1h30m".
func ParseTime(text string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	if s, err := strconv.ParseFloat(text, 64); err == nil && s >= 1e6 && s < 1e11 {
		return time.UnixMicro(int64(s * 1e6)), nil
	}
	if d, err := duration.Parse(text); err == nil {
		return now.Add(-d), nil
	}
	return time.Time{}, fmt.Errorf("got %q, expected a time like 2026-11-21T15:04:05Z, seconds since the epoch, or a time span back from now like 1h30m", text)
}
