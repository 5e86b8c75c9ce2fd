package handler

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/test/harness"
)

func job(raw string) *troupe.Payload {
	p, err := troupe.ParsePayload([]byte(raw))
	if err != nil {
		panic(err)
	}
	return p
}

func builtin(t *testing.T, name string, out io.Writer) troupe.Handler {
	t.Helper()
	h, err := Builtin(name, out)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestBuiltinUnknownName(t *testing.T) {
	_, err := Builtin("nop", io.Discard)
	if err == nil || !strings.Contains(err.Error(), "noop sleep fail panic echo") {
		t.Error(err)
	}
}

func TestBuiltinNoop(t *testing.T) {
	harness.Check(t, builtin(t, "noop", io.Discard).Perform(t.Context(), job(`{}`)))
}

func TestBuiltinSleep(t *testing.T) {
	tests := []struct {
		args string
		want time.Duration
		bad  bool
	}{
		{`[2]`, 2 * time.Second, false},
		{`[0.25,"more"]`, 250 * time.Millisecond, false},
		{`[]`, time.Second, false},
		{`[0]`, 0, false},
		{`["2"]`, 0, true},
		{`[-1]`, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				err := builtin(t, "sleep", io.Discard).Perform(t.Context(), job(`{"args":`+tt.args+`}`))
				if took := time.Since(start); took != tt.want || (err != nil) != tt.bad {
					t.Errorf("took %s, error %v", took, err)
				}
			})
		})
	}
}

func TestBuiltinSleepEndsWithTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(troupe.ErrShutdown) })
		err := builtin(t, "sleep", io.Discard).Perform(ctx, job(`{"args":[1e300]}`))
		if !errors.Is(err, troupe.ErrShutdown) {
			t.Error(err)
		}
	})
}

func TestBuiltinFailAndPanic(t *testing.T) {
	for args, want := range map[string]string{`["boom"]`: "boom", `[]`: "on purpose", `[{"a":1}]`: `{"a":1}`} {
		p := job(`{"args":` + args + `}`)
		if err := builtin(t, "fail", io.Discard).Perform(t.Context(), p); err == nil || err.Error() != want {
			t.Errorf("fail %s: %v", args, err)
		}
		func() {
			defer func() {
				if v := recover(); v != want {
					t.Errorf("panic %s: %v", args, v)
				}
			}()
			_ = builtin(t, "panic", io.Discard).Perform(t.Context(), p)
		}()
	}
}

func TestBuiltinEcho(t *testing.T) {
	var out strings.Builder
	h := builtin(t, "echo", &out)
	for _, raw := range []string{`{"args":[1e3, "é<",123456789012345678901234567890]}`, "{\"args\":[\n1]}", `{}`} {
		harness.Check(t, h.Perform(t.Context(), job(raw)))
	}
	if want := "[1e3,\"é<\",123456789012345678901234567890]\n[1]\n[]\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
