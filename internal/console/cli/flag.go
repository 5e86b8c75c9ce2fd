package cli

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/troupehq/troupe/internal/console/bulk"
	"github.com/troupehq/troupe/internal/words"
)

// These flags check their value at once: the message then names the flag, the value and what was expected.

// Number is a flag that is a whole number of at least least, and at most most if that is not 0.
func Number(n *int, least, most int) pflag.Value { return number{n, least, most} }

type number struct {
	n           *int
	least, most int
}

func (f number) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err == nil && n >= f.least && (f.most == 0 || n <= f.most) {
		*f.n = n
		return nil
	}
	if f.most == 0 || f.most == math.MaxInt32 {
		return fmt.Errorf("expected a whole number from %d", f.least)
	}
	return fmt.Errorf("expected a whole number from %d to %d", f.least, f.most)
}

func (f number) String() string {
	if f.n == nil || *f.n == 0 && f.least > 0 {
		return ""
	}
	return strconv.Itoa(*f.n)
}

func (number) Type() string { return "N" }

// Span is a flag that is a number of seconds or a Go duration, above 0.
func Span(d *time.Duration) pflag.Value { return span{d, false} }

// SpanOrNone is a Span that may be 0.
func SpanOrNone(d *time.Duration) pflag.Value { return span{d, true} }

type span struct {
	d    *time.Duration
	none bool
}

func (f span) Set(s string) (err error) {
	if n, notOne := strconv.ParseFloat(s, 64); f.none && (notOne == nil && n == 0 || s == "0s") {
		*f.d = 0
		return nil
	}
	if *f.d, err = words.ParseDuration(s); err != nil && f.none {
		return errors.New("expected 0, " + words.WantDuration)
	}
	return err
}

func (f span) String() string {
	switch {
	case f.d == nil || *f.d == 0 && !f.none:
		return ""
	case *f.d == 0:
		return "0"
	}
	return f.d.String()
}

func (span) Type() string { return "SECONDS" }

// What --in and --at of the commands say that give a job a time.
const (
	InUsage = "run it this long from now, like 90 or 2h"
	AtUsage = "run it at this time: RFC 3339, seconds since the epoch, or a span from now like 2h"
)

// Moment is a flag that is a time, or a span from now on.
func Moment(t *time.Time) pflag.Value { return moment{t} }

type moment struct{ t *time.Time }

func (f moment) Set(s string) (err error) {
	if *f.t, err = bulk.ParseFuture(s, time.Now()); err != nil {
		return errors.New("expected " + bulk.WantFuture)
	}
	return nil
}

func (f moment) String() string {
	if f.t == nil || f.t.IsZero() {
		return ""
	}
	return f.t.Format(time.RFC3339)
}

func (moment) Type() string { return "TIME" }

// OneOf is a flag with a few values.
func OneOf(value *string, names ...string) pflag.Value { return oneOf{value, names} }

type oneOf struct {
	value *string
	of    []string
}

func (f oneOf) Set(s string) error {
	if !slices.Contains(f.of, s) {
		return errors.New("expected " + words.OneOf(s, f.of...))
	}
	*f.value = s
	return nil
}

func (f oneOf) String() string {
	if f.value == nil {
		return ""
	}
	return *f.value
}

func (oneOf) Type() string { return "WORD" }
