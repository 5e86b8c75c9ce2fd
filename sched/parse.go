package sched

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// longest is how many bytes a line may have.
const longest = 1000

// named are the lines with names of their own.
var named = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@noon": "0 12 * * *", "@hourly": "0 * * * *",
}

// field is one of the fields of a line: numbers from low to high, high itself standing for low as
// well if it is one above the last.
type field struct {
	name            string
	low, last, high int
	words           []string // the names of the numbers from low on
	want            string
}

var (
	inSeconds  = field{"second", 0, 59, 59, nil, "0 to 59"}
	inMinutes  = field{"minute", 0, 59, 59, nil, "0 to 59"}
	inHours    = field{"hour", 0, 23, 24, nil, "0 to 24"}
	inDays     = field{"day of the month", 1, 31, 31, nil, "1 to 31, -31 to -1 from its end, or L, its last day"}
	inMonths   = field{"month", 1, 12, 12, strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec"), "1 to 12, or jan to dec"}
	inWeekdays = field{"weekday", 0, 6, 7, strings.Fields("sun mon tue wed thu fri sat"), "0 to 7, or sun to sat, with #1 to #5, #-1 to #-5 or %2+1 behind it"}
)

const everyHour = set(1<<24 - 1)

// hints tell of signs that other programs know.
var hints = map[string]string{
	"?": "? is Quartz's, a field that says nothing is *",
	"W": "W is Quartz's, the weekday next to a day cannot be said",
	"H": "H is Jenkins's, write the number itself",
	"~": "~ is a random number, write the number itself",
}

var (
	// isText matches the first word of what is no line.
	isText = regexp.MustCompile(`^[A-Za-z]{2,}$`)
	// beginsZone and beginsWeekday tell a zone from a sixth field.
	beginsZone    = regexp.MustCompile(`^([+-]\d\d:?\d\d$|[A-Z][A-Za-z0-9+_-]+(/|$))`)
	beginsWeekday = regexp.MustCompile(`^(?i:sun|mon|tue|wed|thu|fri|sat)([-,#%/&]|$)`)
)

// Parse reads a cron line or an interval, "every 15m". local is the zone of a line that names none;
// nil is that of [Local]. The error says which field is wrong, what it says and what it may say.
func Parse(line string, local *time.Location) (*Schedule, error) {
	if local == nil {
		local = Local()
	}
	if len(line) > longest {
		return nil, fmt.Errorf("a line of %d bytes, expected at most %d", len(line), longest)
	}
	s, err := parse(strings.Trim(line, " \t"), local)
	if err != nil {
		return nil, fmt.Errorf("cron line %q: %w", line, err)
	}
	return s, nil
}

func parse(line string, local *time.Location) (*Schedule, error) {
	if interval, text, err := every(line); err != nil {
		return nil, err
	} else if interval > 0 && text == "" {
		return &Schedule{text: "@every " + interval.String(), interval: interval, loc: local}, nil
	} else if interval > 0 {
		line = text
	}
	words := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' })
	switch {
	case len(words) == 0:
		return nil, errors.New("an empty line, expected five fields or a name such as @daily")
	case words[0][0] == '@':
		meant := named[words[0]]
		if meant == "" {
			return nil, fmt.Errorf("name %s: expected @hourly, @daily, @midnight, @noon, @weekly, @monthly, @yearly or @every", words[0])
		}
		words = append(strings.Fields(meant), words[1:]...)
	case isText.MatchString(words[0]):
		return nil, fmt.Errorf("a text: expected a cron line, which this command prints if there is one: ruby -rfugit -e 'puts Fugit.parse(ARGV[0]).to_cron_s' %q", line)
	}
	n := 5
	if len(words) > 5 && (!beginsZone.MatchString(words[5]) || beginsWeekday.MatchString(words[5])) {
		n = 6
	}
	if len(words) < n || n == 6 && len(words) > 6 && !beginsZone.MatchString(words[6]) {
		return nil, fmt.Errorf("%d fields: expected minute, hour, day of the month, month and weekday, and if need be the second before "+
			"and a zone behind them; a line has no years", len(words))
	}
	s := &Schedule{text: strings.Join(words[:n], " "), loc: local}
	if err := s.fields(words[:n]); err != nil {
		return nil, err
	}
	if zone := strings.Join(words[n:], " "); zone != "" {
		var err error
		if s.loc, err = Zone(zone); err != nil {
			return nil, err
		}
	}
	if s.Next(monday).IsZero() {
		return nil, fmt.Errorf("it never comes: days of the month %s, months %s, weekdays %s", words[n-3], words[n-2], words[n-1])
	}
	return s, nil
}

// fields reads the five or six fields.
func (s *Schedule) fields(words []string) (err error) {
	if len(words) == 5 {
		words = append([]string{"0"}, words...)
	}
	for _, i := range []int{3, 5} {
		if days, ok := strings.CutSuffix(words[i], "&"); ok {
			words[i], s.both = days, true
		}
	}
	read := func(f field, text string) (numbers set, all bool) {
		for item := range strings.SplitSeq(text, ",") {
			whole, wrong := f.each(item, func(n int) {
				if n < 0 {
					s.daysLeft |= 1 << -n
				} else {
					numbers |= 1 << n
				}
			})
			all, err = all || whole, cmp.Or(err, wrong)
		}
		if all {
			numbers = 1<<(f.last+1) - 1<<f.low
		}
		return numbers, all
	}
	s.seconds, _ = read(inSeconds, words[0])
	s.minutes, _ = read(inMinutes, words[1])
	s.hours, _ = read(inHours, words[2])
	days, all := read(inDays, words[3])
	if s.days = days; all {
		s.days, s.daysLeft = 0, 0
	}
	s.months, _ = read(inMonths, words[4])
	return cmp.Or(err, s.possible(words[3]), s.inWeek(words[5]))
}

// possible refuses days that none of the months has, as fugit does even beside a weekday.
func (s *Schedule) possible(days string) error {
	if s.days == 0 || s.daysLeft != 0 {
		return nil
	}
	first := s.days.first(1)
	for month := time.January; month <= time.December; month++ {
		if s.months.has(int(month)) && first <= time.Date(2000, month+1, 0, 0, 0, 0, 0, time.UTC).Day() {
			return nil
		}
	}
	return fmt.Errorf("%s %q: expected a day that one of the months has", inDays.name, days)
}

var countedDay = regexp.MustCompile(`^(.*?)(?:#(-?[1-5]|(?i:last|l))|%(\d{1,4})(?:\+(\d{1,4}))?)$`)

// inWeek reads the field of weekdays.
func (s *Schedule) inWeek(text string) error {
	for item := range strings.SplitSeq(text, ",") {
		var w weekday
		if counted := countedDay.FindStringSubmatch(item); counted != nil {
			day, ok := inWeekdays.number(counted[1])
			w.day = time.Weekday(day % 7)
			w.nth, _ = strconv.Atoi(counted[2])
			w.every, _ = strconv.Atoi(counted[3])
			w.at, _ = strconv.Atoi(counted[4])
			if strings.HasPrefix(strings.ToLower(counted[2]), "l") {
				w.nth = -1
			}
			if !ok || w.nth == 0 && w.every == 0 {
				return inWeekdays.wrong(item)
			}
			s.weekdays = append(s.weekdays, w)
			continue
		}
		if _, err := inWeekdays.each(item, func(n int) {
			s.weekdays = append(s.weekdays, weekday{day: time.Weekday(n)})
		}); err != nil {
			return err
		}
	}
	return nil
}

// each gives add the numbers of an item of a list: a number, a range, or either with a step. all:
// the item restricts nothing.
func (f field) each(item string, add func(int)) (all bool, err error) {
	rest, by, stepped := strings.Cut(item, "/")
	from, to, ranged := strings.Cut(rest, "-")
	if from == "" { // of a month, from its end
		from, to, ranged = strings.Cut(strings.TrimPrefix(rest, "-"), "-")
		from = "-" + from
	}
	step, ok := 1, true
	if stepped {
		step, err = strconv.Atoi(by)
		ok = err == nil && step > 0 && len(by) <= 2
	}
	a, z := f.low, f.last
	switch {
	case !ok:
		return false, fmt.Errorf("%s %q: expected a step of 1 to 99 behind /", f.name, item)
	case rest == "*" || rest == "" && stepped:
		if step == 1 && (!stepped || f.last != 6) {
			return true, nil
		}
	default:
		if a, ok = f.number(from); !ok {
			return false, f.wrong(item)
		}
		switch {
		case ranged:
			if z, ok = f.number(to); z == -1 && a > 0 {
				z = f.last
			}
		case !stepped || f.last == 6:
			z = a
		}
		if !ok || (a < 0) != (z < 0) {
			return false, f.wrong(item)
		}
	}
	f.walk(a, z, step, add)
	return f.last != 6 && a == f.low && z == f.last && step == 1, nil
}

// walk gives add each step-th number from a to z, past the last one to the lowest if need be.
func (f field) walk(a, z, step int, add func(int)) {
	low, last := f.low, f.last
	if a < 0 {
		low, last = -f.last, -1
	}
	if a > last && a != z {
		a = low
	}
	for i, n := 0, a; ; i++ {
		if i%step == 0 && n > last {
			add(low)
		} else if i%step == 0 {
			add(n)
		}
		if n == z {
			return
		}
		if n++; n > last {
			n = low
			if z > last {
				z -= last + 1
			}
		}
	}
}

// number reads a number or the name of one.
func (f field) number(text string) (int, bool) {
	text = strings.ToLower(text)
	if i := slices.Index(f.words, text); i >= 0 {
		return f.low + i, true
	}
	ofMonth := f.last == inDays.last
	if ofMonth && (text == "l" || text == "last") {
		return -1, true
	}
	digits, fromEnd := strings.CutPrefix(text, "-")
	n, err := strconv.ParseUint(digits, 10, 8)
	if err != nil || len(digits) > 2 || int(n) < f.low || int(n) > f.high || fromEnd && !ofMonth {
		return 0, false
	}
	if fromEnd {
		return -int(n), true
	}
	return int(n), true
}

// wrong is the error for an item that is none.
func (f field) wrong(item string) error {
	want := f.want
	if hint := hints[strings.Trim(item, "0123456789/-()")]; hint != "" {
		want += "; " + hint
	}
	return fmt.Errorf("%s %q: expected %s", f.name, item, want)
}
