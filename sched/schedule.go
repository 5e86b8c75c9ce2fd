package sched

import (
	"math/bits"
	"time"
)

// horizon is how far Next and Prev look. The rarest line that comes at all, 29 February on one
// weekday, may take 40 years.
const horizon = 60

// Schedule is what one line says; [Parse] makes it. It is not changed after that, and safe for concurrent use.
type Schedule struct {
	text     string // a line that fugit reads alike, without the zone
	loc      *time.Location
	interval time.Duration // counts from 1970, instead of all that follows
	once     bool

	seconds, minutes, hours, months set
	days, daysLeft                  set // of the month, from its beginning and from its end; both 0: any
	weekdays                        []weekday
	both                            bool // a day must fit days and weekdays, not one of them
}

// weekday is an item of the field of weekdays.
type weekday struct {
	day       time.Weekday
	nth       int // of the month, from its end if below 0; 0: any
	every, at int // weeks since that of 31 December 2018; every 0: any
}

// set has the bits of the numbers that are in it.
type set uint64

func (s set) has(n int) bool { return s>>n&1 == 1 }

// seek returns the first number in the set from n on, upwards if dir is 1 and downwards if it is
// -1, or -1 if there is none.
func (s set) seek(n, dir int) int {
	switch {
	case n < 0 || n > 63:
		return -1
	case dir > 0 && s>>n != 0:
		return n + bits.TrailingZeros64(uint64(s>>n))
	case dir < 0:
		return bits.Len64(uint64(s<<(63-n)>>(63-n))) - 1
	}
	return -1
}

// first is where seek finds the first of all.
func (s set) first(dir int) int { return s.seek(max(0, -dir*63), dir) }

// Location is the zone whose wall clock counts.
func (s *Schedule) Location() *time.Location { return s.loc }

// Interval reports whether the ticks are an interval that no cron line says. To fugit the same text
// means something else, "every 90m" each hour for example.
func (s *Schedule) Interval() bool { return s.interval > 0 }

// String returns a line with the zone that Ruby's fugit reads as s, or refuses if it cannot say an
// interval ("@every 1h30m0s"). It lacks the zone if that is [time.Local], which has no name.
func (s *Schedule) String() string {
	if s.Interval() || s.loc.String() == "Local" {
		return s.text
	}
	return s.text + " " + s.loc.String()
}

// Once returns s for those who want a time of day once a day, whatever the clocks do: ticks that a
// change of the clocks skips become one at the first second after the gap, and those of the hour
// that it repeats do not push. Lines for any hour follow the absolute time and stay as they are.
func (s *Schedule) Once() *Schedule {
	c := *s
	c.once = !c.Interval() && c.hours != everyHour
	return &c
}

// Pushes reports whether the tick t pushes a job. One that does not, the second at a time of day
// under Once, only needs its mark, so that Ruby does not push it either.
func (s *Schedule) Pushes(t time.Time) bool {
	if !s.once {
		return true
	}
	t = t.In(s.loc)
	start, _ := t.ZoneBounds()
	return start.IsZero() || t.Sub(start) >= -shift(start)
}

// shift is by how much the clocks change at t, forwards if it is above 0.
func shift(t time.Time) time.Duration {
	_, after := t.Zone()
	_, before := t.Add(-1).Zone()
	return time.Duration(after-before) * time.Second
}

// Next returns the first tick after t, or the zero time if there is none in sixty years.
func (s *Schedule) Next(t time.Time) time.Time {
	return s.seek(t.Truncate(time.Second).Add(time.Second), 1)
}

// Prev returns the last tick at or before t, or the zero time if there is none in sixty years. What
// fugit calls previous_time is Prev of a second earlier.
func (s *Schedule) Prev(t time.Time) time.Time { return s.seek(t.Truncate(time.Second), -1) }

// seek returns the first tick from t on in one direction. Between two changes of the clocks the
// wall clock runs evenly, so that each such stretch is searched by the calendar alone.
func (s *Schedule) seek(t time.Time, dir int) time.Time {
	if s.Interval() {
		past := t.UnixNano() % int64(s.interval)
		if past < 0 {
			past += int64(s.interval)
		}
		if t = t.Add(-time.Duration(past)); dir > 0 && past > 0 {
			t = t.Add(s.interval)
		}
		return t.In(s.loc)
	}
	t = t.In(s.loc)
	for limit := t.AddDate(dir*horizon, 0, 0); dir*t.Compare(limit) < 0; {
		start, end := t.ZoneBounds()
		if !end.IsZero() && !end.After(t) { // so says ZoneBounds on 31 December of leap years to come
			end = t.Add(time.Hour)
		}
		if dir > 0 && t.Equal(start) && s.skipped(t) {
			return t
		}
		edge := limit
		switch {
		case dir > 0 && !end.IsZero() && end.Before(limit):
			edge = end.Add(-time.Second)
		case dir < 0 && start.After(limit):
			edge = start
		}
		_, offset := t.Zone()
		ahead := time.Duration(offset) * time.Second
		if wall := s.wall(t.UTC().Add(ahead), edge.UTC().Add(ahead), dir); !wall.IsZero() {
			return wall.Add(-ahead).In(s.loc)
		}
		switch {
		case edge.Equal(limit):
			return time.Time{}
		case dir > 0:
			t = edge.Add(time.Second)
		case s.skipped(edge):
			return edge
		default:
			t = edge.Add(-time.Second)
		}
	}
	return time.Time{}
}

// skipped reports whether the change of the clocks at t skips a time of day that counts once.
func (s *Schedule) skipped(t time.Time) bool {
	gap := shift(t)
	if !s.once || gap <= 0 {
		return false
	}
	_, offset := t.Zone()
	after := t.UTC().Add(time.Duration(offset) * time.Second)
	return !s.wall(after.Add(-gap), after.Add(-time.Second), 1).IsZero()
}

// wall returns the first time that fits from from to to. Both are wall clocks, written as UTC.
func (s *Schedule) wall(from, to time.Time, dir int) time.Time {
	hour, minute, second := from.Clock()
	for dir*from.Compare(to) <= 0 {
		year, month, day := from.Date()
		switch {
		case !s.months.has(int(month)) && dir > 0:
			from = time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
		case !s.months.has(int(month)):
			from = time.Date(year, month, 0, 23, 59, 59, 0, time.UTC)
		default:
			if s.day(from) {
				if h, m, sec := s.clock(hour, minute, second, dir); h >= 0 {
					if from = time.Date(year, month, day, h, m, sec, 0, time.UTC); dir*from.Compare(to) <= 0 {
						return from
					}
					return time.Time{}
				}
			}
			from = time.Date(year, month, day+dir, 0, 0, 0, 0, time.UTC)
			if dir < 0 {
				from = from.Add(24*time.Hour - time.Second)
			}
		}
		hour, minute, second = from.Clock()
	}
	return time.Time{}
}

// clock returns the first time of day that fits from h, m, sec on; the hour is -1 if there is none.
func (s *Schedule) clock(h, m, sec, dir int) (hour, minute, second int) {
	hour = s.hours.seek(h, dir)
	if hour == h {
		minute = s.minutes.seek(m, dir)
		if minute == m {
			if second = s.seconds.seek(sec, dir); second >= 0 {
				return hour, minute, second
			}
			minute = s.minutes.seek(m+dir, dir)
		}
		if minute >= 0 {
			return hour, minute, s.seconds.first(dir)
		}
		hour = s.hours.seek(h+dir, dir)
	}
	return hour, s.minutes.first(dir), s.seconds.first(dir)
}

// day reports whether the day of t fits. As in cron, a line that restricts both fields for days
// wants one of them, and with & both.
func (s *Schedule) day(t time.Time) bool {
	day, last := t.Day(), time.Date(t.Year(), t.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
	inMonth := s.days.has(day) || s.daysLeft.has(last+1-day)
	anyDay, anyWeekday := s.days|s.daysLeft == 0, s.weekdays == nil
	if anyWeekday {
		return anyDay || inMonth
	}
	inWeek := false
	for _, w := range s.weekdays {
		inWeek = inWeek || w.fits(t, day, last)
	}
	if anyDay || s.both {
		return inWeek && (anyDay || inMonth)
	}
	return inWeek || inMonth
}

// monday begins the week that fugit counts from.
var monday = time.Date(2018, 12, 31, 0, 0, 0, 0, time.UTC)

func (w weekday) fits(t time.Time, day, last int) bool {
	switch {
	case t.Weekday() != w.day:
		return false
	case w.nth > 0:
		return (day-1)/7+1 == w.nth
	case w.nth < 0:
		return (last-day)/7+1 == -w.nth
	case w.every > 0:
		days := int(t.Truncate(24*time.Hour).Sub(monday).Hours()) / 24
		weeks := (days - int(t.Weekday()+6)%7) / 7 // of its Monday, so that it divides evenly
		return (weeks-w.at)%w.every == 0
	}
	return true
}
