package main

import (
	"errors"
	"strings"

	"github.com/troupehq/troupe/internal/config"
)

// These flags check their value at once: the message then names the flag, the
// value and what was expected.

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
