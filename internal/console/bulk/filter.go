// This file chooses jobs for people.

package bulk

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/mask"
	"github.com/troupehq/troupe/internal/words"
)

// Filter chooses jobs. The zero value chooses all; a job must meet every field that is set.
type Filter struct {
	Text string // in the class, the jid or the error, in any case of letters; also in the arguments with Args
	// Args are the arguments that Text is looked for in, as they are shown; nil for none.
	Args  func(r *inspect.JobRecord, s *inspect.JobSummary) json.RawMessage
	Class string // what is shown as the class, whole
	Queue string // bare name
	Error string // in the class or the message of the last failure, in any case of letters
	Tag   string
	Since time.Time // not before: of the time that the job is listed with
	Until time.Time // before
	When  string    // what that time is called, in words: "next try"

	FailedSince, FailedUntil time.Time // likewise, of the last failure

	// Mask is how the jobs are shown to who asks: what is masked is not found. Nil masks nothing.
	Mask *mask.Masker
}

// Match reports whether the filter chooses the job. at is the time in the list: the score of a job
// in a set, and since when a job in a queue has waited.
func (f *Filter) Match(r *inspect.JobRecord, at time.Time) bool {
	if !f.Since.IsZero() && at.Before(f.Since) || !f.Until.IsZero() && !at.Before(f.Until) || f.Queue != "" && r.Queue != f.Queue {
		return false
	}
	if !f.FailedSince.IsZero() || !f.FailedUntil.IsZero() {
		t := failed(r)
		if t.IsZero() || t.Before(f.FailedSince) || !f.FailedUntil.IsZero() && !t.Before(f.FailedUntil) {
			return false
		}
	}
	if f.Text == "" && f.Class == "" && f.Error == "" && f.Tag == "" {
		return true
	}
	s := r.Summary()
	if f.Class != "" && s.Class != f.Class || f.Tag != "" && (!slices.Contains(s.Tags, f.Tag) || f.Mask.Text(f.Tag) != f.Tag) {
		return false
	}
	if f.Error != "" && !f.fails(&s, newNeedle(f.Error)) {
		return false
	}
	if f.Text == "" {
		return true
	}
	text := newNeedle(f.Text)
	return text.in(s.Class+"\n"+r.JID) || f.fails(&s, text) || f.Args != nil && text.inJSON(f.Args(r, &s))
}

// fails reports whether a job is shown with an error that has a text in it.
func (f *Filter) fails(s *inspect.JobSummary, text needle) bool {
	return text.in(s.ErrorClass+"\n"+s.ErrorMessage) && text.in(s.ErrorClass+"\n"+f.Mask.Text(s.ErrorMessage))
}

// failed is when a job has failed for the last time; zero if it never has.
func failed(r *inspect.JobRecord) time.Time {
	for _, field := range []string{"retried_at", "failed_at"} {
		if t, ok := r.Payload.Time(field); ok {
			return t
		}
	}
	return time.Time{}
}

// AllArgs are arguments as they are: for Args of those who see them so.
func AllArgs(_ *inspect.JobRecord, s *inspect.JobSummary) json.RawMessage { return s.Args }

// Told is the filter in words, for others than who has typed it. Everywhere tells that Text was looked for
// in arguments as they are.
func (f *Filter) Told(m *mask.Masker, everywhere bool) string {
	told := *f
	if told.Text != "" {
		told.Text = m.Typed("text", f.Text, everywhere)
	}
	told.Class, told.Queue, told.Error, told.Tag = m.Text(f.Class), m.Text(f.Queue), m.Text(f.Error), m.Text(f.Tag)
	return told.String()
}

// String is the filter in words.
func (f *Filter) String() string {
	var words []string
	for _, w := range []struct{ name, value string }{{"text", f.Text}, {"class", f.Class}, {"queue", f.Queue}, {"error", f.Error}, {"tag", f.Tag}} {
		if w.value != "" {
			words = append(words, w.name+" "+strconv.Quote(w.value))
		}
	}
	when := cmp.Or(f.When, "when")
	for _, w := range []struct {
		name string
		at   time.Time
	}{{when + " since", f.Since}, {when + " until", f.Until}, {"failed since", f.FailedSince}, {"failed until", f.FailedUntil}} {
		if !w.at.IsZero() {
			words = append(words, w.name+" "+w.at.UTC().Format(time.RFC3339))
		}
	}
	return strings.Join(words, ", ")
}

// ParseTime reads a time: RFC 3339, a day or a minute of UTC as in "2026-11-23 14:00", today or
// yesterday, seconds since the epoch, or how long before now, as in "1h30m".
func ParseTime(text string, now time.Time) (time.Time, error) { return parse(text, now, -1, "back ") }

// ParseFuture reads a time likewise, but a time span is one from now on.
func ParseFuture(text string, now time.Time) (time.Time, error) { return parse(text, now, 1, "") }

const wantTime = "a time like 2026-11-21T15:04:05Z, a day like 2026-11-21, today, yesterday, seconds since the epoch, or a time span %sfrom now like 1h30m"

// WantFuture is what ParseFuture accepts, in words.
var WantFuture = fmt.Sprintf(wantTime, "")

func parse(text string, now time.Time, sign time.Duration, back string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	day := now.UTC().Truncate(24 * time.Hour)
	switch text {
	case "today":
		return day, nil
	case "yesterday":
		return day.AddDate(0, 0, -1), nil
	}
	for _, layout := range []string{"2006-01-02", "2006-01-02 15:04"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	if s, err := strconv.ParseFloat(text, 64); err == nil && s >= 1e6 && s < 1e11 {
		return time.UnixMicro(int64(s * 1e6)), nil
	}
	if d, err := words.ParseDuration(text); err == nil {
		return now.Add(sign * d), nil
	}
	return time.Time{}, fmt.Errorf("got %q, expected "+wantTime, text, back)
}
