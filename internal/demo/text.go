package demo

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// style is the parameter of an SGR escape sequence; "" is plain.
type style string

const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
)

// span is a piece of a row in one style.
type span struct {
	text  string
	style style
}

// row is one line of the view.
type row []span

// add appends text, cleaned of what could move the cursor.
func (r *row) add(st style, text string) { *r = append(*r, span{clean(text), st}) }

func (r *row) addf(st style, format string, args ...any) { r.add(st, fmt.Sprintf(format, args...)) }

// width in columns. Wide characters, of which the demo itself has none, count
// as one; the terminal cuts what does not fit.
func (r row) width() int {
	n := 0
	for _, s := range r {
		n += len([]rune(s.text))
	}
	return n
}

// cut returns the row in at most width columns.
func (r row) cut(width int) (out row) {
	whole := r.width() <= width
	if !whole {
		width-- // for the ellipsis
	}
	for _, s := range r {
		if width <= 0 {
			break
		}
		text := []rune(s.text)
		text = text[:min(len(text), width)]
		width -= len(text)
		out = append(out, span{string(text), s.style})
	}
	if !whole {
		out = append(out, span{"…", plain})
	}
	return out
}

// draw returns the row as text in at most width columns.
func (r row) draw(width int, color bool) string {
	var b strings.Builder
	for _, s := range r.cut(width) {
		if color && s.style != plain {
			fmt.Fprintf(&b, "\x1b[%sm%s\x1b[0m", s.style, s.text)
		} else {
			b.WriteString(s.text)
		}
	}
	return b.String()
}

// clean makes text fit for one line of a terminal: names of classes and errors
// come from Redis and may hold anything.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return '·'
		}
		return r
	}, text)
}

// grouped writes a number as 1,234,567.
func grouped[T int | int64 | uint64](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// short writes a duration with about two digits: 85µs, 1.2ms, 120ms, 3.4s, 2m5s.
func short(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// spark draws values as bars of eight heights, the highest value being the
// highest bar; only the last n values.
func spark(values []float64, n int) string {
	values = values[max(0, len(values)-n):]
	top := 0.0
	for _, v := range values {
		top = max(top, v)
	}
	bars := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, v := range values {
		i := 0
		if top > 0 {
			i = int(v / top * float64(len(bars)-1))
		}
		b.WriteRune(bars[i])
	}
	return b.String()
}
