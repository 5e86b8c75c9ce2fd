// Package words writes texts for people: numbers, times and sizes as pages show them, and texts of
// jobs that are cut and quoted for log lines and messages. It reads the spans of time that people
// write.
package words

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Count is a whole number with commas, digit by digit.
func Count(n any) string {
	text := fmt.Sprint(n)
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign, text = "-", text[1:]
	}
	var b strings.Builder
	for i, digit := range text {
		if i > 0 && (len(text)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	return sign + b.String()
}

// Plural is a count with its word.
func Plural(n any, word string) string {
	text := Count(n)
	switch {
	case text == "1":
	case strings.HasSuffix(word, "s"), strings.HasSuffix(word, "ch"):
		word += "es"
	case strings.HasSuffix(word, "y") && !strings.HasSuffix(word, "ey"):
		word = strings.TrimSuffix(word, "y") + "ies"
	default:
		word += "s"
	}
	return text + " " + word
}

// Rate is a number a second, "–" if it is not known.
func Rate(r any) string {
	var f float64
	switch r := r.(type) {
	case float64:
		f = r
	case *float64:
		if r == nil {
			return "–"
		}
		f = *r
	}
	switch {
	case f == 0:
		return "0"
	case math.Abs(f) < 10:
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return Count(int64(math.Round(f)))
}

// Span is a time span for people: "300ms", "42s", "3m 20s", "5h 3m", "9d".
func Span(v any) string {
	var d time.Duration
	switch v := v.(type) {
	case time.Duration:
		d = v
	case float64:
		d = time.Duration(v * float64(time.Second))
	}
	if d < 0 {
		return "-" + Span(-d)
	}
	two := func(a time.Duration, unit string, b time.Duration, small string) string {
		if rest := d % a / b; rest > 0 {
			return fmt.Sprintf("%d%s %d%s", d/a, unit, rest, small)
		}
		return fmt.Sprintf("%d%s", d/a, unit)
	}
	switch day := 24 * time.Hour; {
	case d == 0:
		return "0s"
	case d < time.Second:
		return strconv.FormatInt(max(1, d.Milliseconds()), 10) + "ms"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return two(time.Minute, "m", time.Second, "s")
	case d < 2*day:
		return two(time.Hour, "h", time.Minute, "m")
	default:
		return fmt.Sprintf("%dd", d/day)
	}
}

// Exact is a time of some digits: "225ms", "1.7s", "335s".
func Exact(seconds float64) string {
	if seconds < 1 {
		return strconv.FormatFloat(seconds*1e3, 'g', 4, 64) + "ms"
	}
	return strconv.FormatFloat(seconds, 'g', 4, 64) + "s"
}

// Brief is a span of whole seconds without its smaller half, and 0s for less than nothing.
func Brief(d time.Duration) string {
	text, _, _ := strings.Cut(Span(max(0, d).Truncate(time.Second)), " ")
	return text
}

// Few is a span with about two digits: "85µs", "1.2ms", "120ms", "3.4s", "2m5s", and "0s" for less than nothing.
func Few(d time.Duration) string {
	unit := time.Microsecond
	for unit < time.Second && d >= 100*unit {
		unit *= 10
	}
	return max(d, 0).Round(unit).String()
}

// At is an instant, "" for the zero Time: "2026-11-26T19:42:12Z".
func At(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

// Rests tells until when a limit rests whose breaker is open.
func Rests(until time.Time) string {
	if until.After(time.Now()) {
		return "rests until " + At(until)
	}
	return "rested until " + At(until) + ", and waits for a probe"
}

// Since is how long ago an instant was, as Brief, "" for the zero Time.
func Since(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return Brief(time.Since(t))
}

// TakeFrom is how a process comes to take from a queue.
func TakeFrom(queue string) string {
	return "by its configuration, or by troupe configure ID --queue " + queue + ", with its other queues named as well: it leaves those that are not"
}

// Size is a number of bytes for people.
func Size(n int64) string {
	f, units := float64(n), []string{"B", "KB", "MB", "GB", "TB"}
	i := 0
	for ; f >= 1024 && i < len(units)-1; i++ {
		f /= 1024
	}
	if i == 0 || f >= 100 {
		return fmt.Sprintf("%.0f %s", f, units[i])
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

// Seconds is a span of whole seconds in a text: "25 s".
func Seconds(d time.Duration) string { return strconv.Itoa(int(d.Seconds())) + " s" }

// Days is a span of whole days in a text: "180 days".
func Days(d time.Duration) string { return strconv.Itoa(int(d.Hours()/24)) + " days" }
