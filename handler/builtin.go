package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/handlerconf"
)

// Builtin returns a handler that needs no code:
//
//	noop   does nothing
//	sleep  waits for args[0] seconds (a number, default 1); ends early, with the
//	       cause, when the job is cancelled
//	fail   returns an error with the message args[0]
//	panic  panics with the message args[0]
//	echo   writes its args to stdout, one line of JSON per job
//
// stdout is used by echo alone; one call of Write per job, never two at once.
func Builtin(name string, stdout io.Writer) (troupe.Handler, error) {
	switch name {
	case "noop":
		return troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return nil }), nil
	case "sleep":
		return troupe.HandlerFunc(sleep), nil
	case "fail":
		return troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error {
			return errors.New(message(p))
		}), nil
	case "panic":
		return troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error {
			panic(message(p))
		}), nil
	case "echo":
		return &echo{out: stdout}, nil
	}
	return nil, fmt.Errorf("builtin is %q, expected one of %v", name, handlerconf.Builtins())
}

func sleep(ctx context.Context, p *troupe.Payload) error {
	seconds := 1.0
	if raw := firstArg(p); raw != nil {
		if err := json.Unmarshal(raw, &seconds); err != nil || seconds < 0 {
			return &troupe.ArgsError{Index: 0, Expected: "a number of seconds, 0 or more", Got: "something else"}
		}
	}
	d := time.Duration(math.MaxInt64) // about 292 years, for what does not fit
	if ns := seconds * float64(time.Second); ns < math.MaxInt64 {
		d = time.Duration(ns)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// message is args[0]: a string as it is, anything else as its JSON text.
func message(p *troupe.Payload) string {
	raw := firstArg(p)
	if raw == nil {
		return "on purpose"
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// firstArg is nil for no arguments and for args that are no array.
func firstArg(p *troupe.Payload) json.RawMessage {
	var args []json.RawMessage
	if json.Unmarshal(p.Args(), &args) != nil || len(args) == 0 {
		return nil
	}
	return args[0]
}

type echo struct {
	mu  sync.Mutex
	out io.Writer
}

func (e *echo) Perform(_ context.Context, p *troupe.Payload) error {
	args := p.Args()
	if args == nil {
		args = json.RawMessage("[]")
	}
	// Text from others may hold line breaks between values; one job, one line.
	var line bytes.Buffer
	if err := json.Compact(&line, args); err != nil {
		return fmt.Errorf("echo args: %w", err)
	}
	line.WriteByte('\n')
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, err := e.out.Write(line.Bytes()); err != nil {
		return fmt.Errorf("echo args: %w", err)
	}
	return nil
}
