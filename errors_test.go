package troupe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/errchain"
)

type namedError struct{ class string }

func (namedError) Error() string        { return "named" }
func (e namedError) ErrorClass() string { return e.class }

type panicking struct{}

func (panicking) Error() string       { return "panicking" }
func (panicking) ErrorClass() string  { panic("no class") }
func (panicking) Backtrace() []string { panic("no stack") }
func (panicking) Unwrap() error       { panic("no cause") }

func TestErrorClass(t *testing.T) {
	op := &net.OpError{Op: "dial", Err: errors.New("refused")}
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"nil", nil, ""},
		{"errors.New", io.EOF, "error"},
		{"fmt.Errorf", fmt.Errorf("x %d", 1), "error"},
		{"wrapped", fmt.Errorf("x: %w", io.EOF), "error"},
		{"joined", errors.Join(io.EOF, op), "error"},
		{"two wrapped", fmt.Errorf("%w %w", io.EOF, op), "error"},
		{"type", &net.AddrError{}, "net.AddrError"},
		{"type wrapped", fmt.Errorf("x: %w", &net.AddrError{}), "net.AddrError"},
		{"innermost", &fs.PathError{Op: "open", Err: &net.AddrError{}}, "net.AddrError"},
		{"value type", namedError{}, "troupe.namedError"}, // it answers ""
		{"own class", namedError{"Billing::Declined"}, "Billing::Declined"},
		{"own class, wrapped", fmt.Errorf("x: %w", namedError{"Billing::Declined"}), "Billing::Declined"},
		{"own class, joined", errors.Join(io.EOF, namedError{"Billing::Declined"}), "Billing::Declined"},
		{"own class around another type", fmt.Errorf("%w", Kill(namedError{"K"})), "K"},
		{"outcome", Discard(nil), "troupe.OutcomeError"},
		{"outcome with a reason", RetryIn(time.Second, op.Err), "error"},
		{"cancelled", context.DeadlineExceeded, "context.deadlineExceededError"},
		{"panic", &PanicError{Value: op}, "panic"},
		{"goexit", &PanicError{Goexit: true}, "goexit"},
		{"unknown class", &UnknownClassError{"X"}, "troupe.UnknownClassError"},
		{"args", &ArgsError{}, "troupe.ArgsError"},
		{"methods that panic", fmt.Errorf("x: %w", panicking{}), "error"},
	} {
		if got := ErrorClass(tt.err); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestErrorTexts(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&PanicError{Value: "boom"}, "panic: boom"},
		{&PanicError{Value: io.EOF}, "panic: EOF"},
		{&PanicError{Goexit: true}, "handler called runtime.Goexit"},
		{&UnknownClassError{"A::B"}, `no handler for class "A::B"`},
		{&PayloadError{"empty", 0}, "invalid payload at byte 0: empty"},
		{Discard(nil), "job discarded"},
		{Kill(nil), "job killed"},
		{RetryIn(time.Minute, nil), "job to be retried in 1m0s"},
		{Kill(io.EOF), "EOF"},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
	if errors.Is(&PanicError{Value: Discard(io.EOF)}, io.EOF) {
		t.Error("a panic unwraps to its value")
	}
	if !errors.Is(Discard(io.EOF), io.EOF) {
		t.Error("Discard hides its reason")
	}
}

//go:noinline
func crash(list []int) int { return list[5] }

//go:noinline
func fill(m map[string]int) { m["a"] = 1 }

//go:noinline
func leave() { runtime.Goexit() }

// caught runs fn as the daemon runs a handler.
func caught(fn func()) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				err = &PanicError{Value: v, Stack: debug.Stack()}
			} else {
				err = &PanicError{Goexit: true, Stack: debug.Stack()}
			}
		}()
		fn()
	}()
	<-done
	return err
}

func TestBacktrace(t *testing.T) {
	for name, tt := range map[string]struct {
		fn    func()
		first string
	}{
		"runtime panic": {func() { crash(nil) }, "in `github.com/troupehq/troupe.crash'"},
		"nil map":       {func() { fill(nil) }, "in `github.com/troupehq/troupe.fill'"},
		"plain panic":   {func() { panic("boom") }, "in `github.com/troupehq/troupe.TestBacktrace.func"},
		"goexit":        {leave, "in `github.com/troupehq/troupe.leave'"},
		"panic again": {func() {
			defer func() { panic(recover()) }()
			crash(nil)
		}, "in `github.com/troupehq/troupe.crash'"},
	} {
		lines := errchain.Backtrace(fmt.Errorf("x: %w", caught(tt.fn)))
		if len(lines) < 2 || !strings.Contains(lines[0], "errors_test.go:") || !strings.Contains(lines[0], tt.first) {
			t.Errorf("%s: got\n%s", name, strings.Join(lines, "\n"))
		}
		for _, line := range lines {
			if strings.Contains(line, "runtime/debug") || strings.Contains(line, "0x") {
				t.Errorf("%s: line %q", name, line)
			}
		}
	}
	if got := errchain.Backtrace(io.EOF); got != nil {
		t.Errorf("an error without a stack: %q", got)
	}
	if got := errchain.Backtrace(panicking{}); got != nil {
		t.Errorf("a method that panics: %q", got)
	}
}

func TestFramesReadAnyText(t *testing.T) {
	stack := "goroutine 7 [running]:\nmain.(*T[...]).Do(0xc000, {0x1, 0x2})\n\t/src/a b/t.go:12 +0x1d\n" +
		"main.main.func1.2()\n\t/src/main.go:5\ncreated by main.main in goroutine 1\n\t/src/main.go:3 +0x5\n"
	want := []string{"/src/a b/t.go:12:in `main.(*T[...]).Do'", "/src/main.go:5:in `main.main.func1.2'", "/src/main.go:3:in `created by main.main in goroutine 1'"}
	if got := errchain.Frames([]byte(stack)); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	for _, odd := range []string{"", "\n\n", "\tx", "panic(", "goroutine"} {
		errchain.Frames([]byte(odd)) // must not panic
	}
}
