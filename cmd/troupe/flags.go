package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/troupehq/troupe/internal/config"
	"github.com/troupehq/troupe/internal/words"
)

// These flags check their value at once: the message then names the flag, the
// value and what was expected.

// countFlag is a whole number from 1 to most.
type countFlag struct {
	n    *int
	most int
}

func (f countFlag) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > f.most {
		return fmt.Errorf("expected a whole number from 1 to %d", f.most)
	}
	*f.n = n
	return nil
}

func (f countFlag) String() string {
	if f.n == nil || *f.n == 0 {
		return ""
	}
	return strconv.Itoa(*f.n)
}

func (countFlag) Type() string { return "N" }

// durationFlag is a number of seconds or a Go duration, above 0.
type durationFlag struct{ d *time.Duration }

func (f durationFlag) Set(s string) (err error) {
	*f.d, err = words.ParseDuration(s)
	return err
}

func (f durationFlag) String() string {
	if f.d == nil || *f.d == 0 {
		return ""
	}
	return f.d.String()
}

func (durationFlag) Type() string { return "SECONDS" }

// wordFlag is any text but none, so that an unset shell variable is noticed.
type wordFlag struct {
	s    *string
	kind string
}

func (f wordFlag) Set(s string) error {
	if s == "" {
		return errors.New("expected a value")
	}
	*f.s = s
	return nil
}

func (f wordFlag) String() string {
	if f.s == nil {
		return ""
	}
	return *f.s
}

func (f wordFlag) Type() string { return f.kind }

// queueFlag collects NAME[,WEIGHT]; they are judged together, see
// config.ParseQueues.
type queueFlag struct{ values *[]string }

func (f queueFlag) Set(s string) error {
	*f.values = append(*f.values, s)
	_, err := config.ParseQueues("-q", *f.values)
	if faults, ok := errors.AsType[config.Faults](err); ok {
		return errors.New("expected " + faults[len(faults)-1].Want)
	}
	return err
}

func (f queueFlag) String() string {
	if f.values == nil {
		return ""
	}
	return strings.Join(*f.values, " ")
}

func (queueFlag) Type() string { return "NAME[,WEIGHT]" }

// timeFlag is RFC 3339 or seconds since the epoch.
type timeFlag struct{ t *time.Time }

// maxUnix is the last second of the year 9999; what exceeds it is mostly
// milliseconds by mistake.
const maxUnix = 253402300799

func (f timeFlag) Set(s string) error {
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		*f.t = t
		return nil
	}
	seconds, err := strconv.ParseFloat(s, 64)
	if err != nil || !(seconds >= 0 && seconds <= maxUnix) {
		return errors.New("expected a time like 2026-11-21T15:04:05Z or seconds since the epoch")
	}
	*f.t = time.UnixMicro(int64(seconds * 1e6))
	return nil
}

func (f timeFlag) String() string {
	if f.t == nil || f.t.IsZero() {
		return ""
	}
	return f.t.Format(time.RFC3339)
}

func (timeFlag) Type() string { return "TIME" }
