package sched

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func mustParse(t interface {
	Helper()
	Fatal(args ...any)
}, line string,
) *Schedule {
	t.Helper()
	s, err := Parse(line, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// clock writes each time in its zone.
func clock(times ...time.Time) string {
	var b strings.Builder
	for _, at := range times {
		b.WriteString(at.Format("02T15:04:05Z07:00 "))
	}
	return strings.TrimSpace(b.String())
}

// ticks are those from and to a time, found forwards, after it has been checked that backwards
// they are the same.
func ticks(t *rapid.T, s *Schedule, from, to time.Time) (out []time.Time) {
	for at := s.Next(from.Add(-time.Nanosecond)); !at.IsZero() && !at.After(to); at = s.Next(at) {
		out = append(out, at)
	}
	i := len(out)
	for at := s.Prev(to); !at.IsZero() && !at.Before(from); at = s.Prev(at.Add(-time.Nanosecond)) {
		if i--; i < 0 || !out[i].Equal(at) {
			t.Fatalf("%s: backwards %s, forwards %s", s, at, out)
		}
	}
	if i != 0 {
		t.Fatalf("%s: %d less backwards than forwards, %s", s, i, out)
	}
	return out
}

// days around the changes of clocks, and others.
var someDays = []string{"2026-03-29", "2026-10-25", "2026-03-08", "2026-11-01", "2026-04-05", "2026-10-04", "2028-02-29", "2026-12-31", "2015-07-01"}

// Each minute of three days whose wall clock fits is a tick, and nothing else is.
func TestTicksAreTheMinutesThatFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := func(low, high int) *rapid.Generator[string] {
			n := rapid.Map(rapid.IntRange(low, high), strconv.Itoa)
			return rapid.OneOf(n, rapid.Just("*"), rapid.Custom(func(t *rapid.T) string {
				return n.Draw(t, "from") + "-" + n.Draw(t, "to")
			}), rapid.Custom(func(t *rapid.T) string {
				return "*/" + strconv.Itoa(rapid.IntRange(2, 40).Draw(t, "step"))
			}), rapid.Custom(func(t *rapid.T) string {
				return n.Draw(t, "one") + "," + n.Draw(t, "other")
			}))
		}
		days := rapid.OneOf(value(1, 28), rapid.SampledFrom([]string{"L", "-2", "1-7&", "-7--1&", "*"}))
		weekdays := rapid.OneOf(value(0, 7), rapid.SampledFrom([]string{"sun#1", "sun#-1", "mon#2", "sun%2", "tue%3+1", "*"}))
		line := strings.Join([]string{
			value(0, 59).Draw(t, "minute"), value(0, 24).Draw(t, "hour"), days.Draw(t, "day"),
			value(1, 12).Draw(t, "month"), weekdays.Draw(t, "weekday"),
			rapid.SampledFrom([]string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Africa/Monrovia"}).Draw(t, "zone"),
		}, " ")
		s, err := Parse(line, time.UTC)
		if err != nil && strings.Contains(err.Error(), "never comes") {
			t.Skip(err)
		} else if err != nil {
			t.Fatal(err)
		}
		day, err := time.ParseInLocation(time.DateOnly, rapid.SampledFrom(someDays).Draw(t, "date"), s.loc)
		if err != nil {
			t.Fatal(err)
		}
		from, to := day.Add(-25*time.Hour), day.Add(47*time.Hour)
		var want []time.Time
		for at := from; !at.After(to); at = at.Add(time.Minute) {
			wall := time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC)
			if s.minutes.has(at.Minute()) && s.hours.has(at.Hour()) && s.months.has(int(at.Month())) && s.day(wall) {
				want = append(want, at)
			}
		}
		if got := ticks(t, s, from, to); clock(got...) != clock(want...) {
			t.Fatalf("%s: %s, want %s", line, clock(got...), clock(want...))
		}
		// under Once a time of day comes once
		once, seen := s.Once(), map[string]bool{}
		for _, at := range ticks(t, once, from, to) {
			if key := at.Format("2006-01-02T15:04"); once.Pushes(at) && once.once {
				if seen[key] {
					t.Fatalf("%s: %s twice", line, key)
				}
				seen[key] = true
			}
		}
		for _, at := range want {
			if once.once && !seen[at.Format("2006-01-02T15:04")] && at.After(from.Add(2*time.Hour)) {
				t.Fatalf("%s: %s never", line, at)
			}
		}
	})
}

func TestOnce(t *testing.T) {
	for _, tt := range []struct {
		line, day            string
		fugit, pushes, marks string // marks: without a push
	}{
		{"30 2 * * * Europe/Berlin", "2026-03-29", "", "29T03:00:00+02:00", ""},
		{"30 2 * * * Europe/Berlin", "2026-10-25", "25T02:30:00+02:00 25T02:30:00+01:00", "25T02:30:00+02:00", "25T02:30:00+01:00"},
		{"0 2 * * * Europe/Berlin", "2026-03-29", "", "29T03:00:00+02:00", ""},
		{"*/20 2 * * * Europe/Berlin", "2026-03-29", "", "29T03:00:00+02:00", ""},
		{"0 2,3 * * * Europe/Berlin", "2026-03-29", "29T03:00:00+02:00", "29T03:00:00+02:00", ""},
		{"30 2,3 * * * Europe/Berlin", "2026-03-29", "29T03:30:00+02:00", "29T03:00:00+02:00 29T03:30:00+02:00", ""},
		{"0 3 * * * Europe/Berlin", "2026-10-25", "25T03:00:00+01:00", "25T03:00:00+01:00", ""},
		{"0 4 * * * Europe/Berlin", "2026-03-29", "29T04:00:00+02:00", "29T04:00:00+02:00", ""},
		{"30 2 * * mon Europe/Berlin", "2026-03-29", "", "", ""},
		{"45 1 * * * Australia/Lord_Howe", "2026-04-05", "05T01:45:00+11:00 05T01:45:00+10:30", "05T01:45:00+11:00", "05T01:45:00+10:30"},
		{"15 2 * * * Australia/Lord_Howe", "2026-10-04", "", "04T02:30:00+11:00", ""},
		{"15 1 * * * America/New_York", "2026-11-01", "01T01:15:00-04:00 01T01:15:00-05:00", "01T01:15:00-04:00", "01T01:15:00-05:00"},
		{"30 0 * * * Africa/Cairo", "2026-04-24", "", "24T01:00:00+03:00", ""},
	} {
		s := mustParse(t, tt.line)
		day, err := time.ParseInLocation(time.DateOnly, tt.day, s.loc)
		if err != nil {
			t.Fatal(err)
		}
		end := time.Date(day.Year(), day.Month(), day.Day()+1, 0, 0, 0, 0, s.loc).Add(-1)
		all := func(s *Schedule, pushes bool) string {
			var out []time.Time
			for at := s.Next(day.Add(-1)); !at.After(end); at = s.Next(at) {
				if s.Pushes(at) == pushes {
					out = append(out, at)
				}
			}
			return clock(out...)
		}
		if got := all(s, true); got != tt.fugit {
			t.Errorf("%s, %s: %q, want %q", tt.line, tt.day, got, tt.fugit)
		}
		if got, marks := all(s.Once(), true), all(s.Once(), false); got != tt.pushes || marks != tt.marks {
			t.Errorf("%s, %s, once: %q and marks %q, want %q and %q", tt.line, tt.day, got, marks, tt.pushes, tt.marks)
		}
	}
	for _, line := range []string{"15 * * * * Europe/Berlin", "*/30 * * * * Europe/Berlin", "0 0-23 * * * Europe/Berlin", "every 90m"} {
		s := mustParse(t, line).Once()
		from := time.Date(2026, 10, 24, 23, 0, 0, 0, time.UTC)
		for at, n := s.Next(from), 0; n < 8; at, n = s.Next(at), n+1 {
			if !s.Pushes(at) {
				t.Errorf("%s: %s does not push", line, at)
			}
		}
	}
}

func TestRareLines(t *testing.T) {
	from := time.Date(2096, 3, 1, 0, 0, 0, 0, time.UTC)
	for line, want := range map[string]string{
		"0 0 29 2 *":       "2104-02-29",
		"0 0 29& 2 mon":    "2112-02-29",
		"0 0 * 2 mon#5":    "2112-02-29",
		"0 0 29& 2 thu":    "2120-02-29",
		"0 0 -1& 2 sat":    "2099-02-28",
		"0 0 29& 2 thu%53": "",
	} {
		s, err := Parse(line, time.UTC)
		switch {
		case want == "" && err == nil:
			t.Errorf("%s is accepted", line)
		case want != "" && err != nil:
			t.Error(err)
		case want != "" && s.Next(from).Format(time.DateOnly) != want:
			t.Errorf("%s: %s, want %s", line, s.Next(from), want)
		}
	}
}

// The scheduler reads thousands of lines and asks each for its next tick.
func BenchmarkNext(b *testing.B) {
	for _, line := range []string{"*/5 * * * * Europe/Berlin", "0 4 * * mon#2 Europe/Berlin", "30 2 29 2 * Europe/Berlin", "0 0 29& 2 mon Europe/Berlin"} {
		s := mustParse(b, line)
		from := time.Date(2026, 11, 26, 19, 0, 0, 0, time.UTC)
		b.Run(line, func(b *testing.B) {
			for b.Loop() {
				s.Next(from)
			}
		})
	}
}

// Parse ends on any text, and what it accepts has ticks in order that Prev finds again, and a text
// that says the same.
func FuzzParse(f *testing.F) {
	for _, s := range sections(f) {
		for _, line := range s.lines {
			f.Add(line)
		}
	}
	f.Add("every 90m")
	f.Add("every weekday at 9:00")
	f.Fuzz(func(t *testing.T, line string) {
		s, err := Parse(line, time.UTC)
		if err != nil {
			return
		}
		again, err := Parse(s.String(), time.UTC)
		if err != nil {
			t.Fatalf("%q became %q: %v", line, s, err)
		}
		at := time.Date(2026, 3, 28, 20, 0, 0, 0, time.UTC)
		for range 3 {
			next := s.Next(at)
			if next.IsZero() {
				return
			}
			if !next.After(at) || !s.Prev(next).Equal(next) || !again.Next(at).Equal(next) {
				t.Fatalf("%q: %s after %s, before it %s; %q: %s", line, next, at, s.Prev(next), again, again.Next(at))
			}
			at = next
		}
	})
}
