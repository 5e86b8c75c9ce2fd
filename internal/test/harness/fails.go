// This file tests what fails tests.

package harness

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// watched is a testing.TB that is allowed to fail.
type watched struct {
	testing.TB
	mu      sync.Mutex
	text    strings.Builder
	failed  bool
	cleanup []func()
}

func (w *watched) note(fail bool, s string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = w.failed || fail
	w.text.WriteString(s + "\n")
}

func (w *watched) Helper()                      {}
func (w *watched) Log(args ...any)              { w.note(false, fmt.Sprint(args...)) }
func (w *watched) Logf(f string, args ...any)   { w.note(false, fmt.Sprintf(f, args...)) }
func (w *watched) Error(args ...any)            { w.note(true, fmt.Sprint(args...)) }
func (w *watched) Errorf(f string, args ...any) { w.note(true, fmt.Sprintf(f, args...)) }
func (w *watched) Fatal(args ...any)            { w.note(true, fmt.Sprint(args...)); runtime.Goexit() }
func (w *watched) Fatalf(f string, args ...any) {
	w.note(true, fmt.Sprintf(f, args...))
	runtime.Goexit()
}
func (w *watched) Cleanup(f func())         { w.cleanup = append(w.cleanup, f) }
func (w *watched) Context() context.Context { return w.TB.Context() }
func (w *watched) Name() string             { return w.TB.Name() }

// Try runs f as a test of its own, cleanups included, and returns what it said.
func Try(t *testing.T, f func(tb testing.TB)) (failed bool, text string) {
	t.Helper()
	w := &watched{TB: t}
	run := func(f func()) {
		done := make(chan struct{})
		go func() { defer close(done); f() }()
		<-done
	}
	run(func() { f(w) })
	for len(w.cleanup) > 0 {
		last := w.cleanup[len(w.cleanup)-1]
		w.cleanup = w.cleanup[:len(w.cleanup)-1]
		run(last)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed, w.text.String()
}

// Fails checks that f fails its test and says each of want.
func Fails(t *testing.T, f func(tb testing.TB), want ...string) {
	t.Helper()
	failed, text := Try(t, f)
	if !failed {
		t.Errorf("did not fail:\n%s", text)
	}
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("the failure does not say %q:\n%s", w, text)
		}
	}
}

// Passes checks that f does not fail its test.
func Passes(t *testing.T, f func(tb testing.TB)) {
	t.Helper()
	if failed, text := Try(t, f); failed {
		t.Errorf("failed:\n%s", text)
	}
}
