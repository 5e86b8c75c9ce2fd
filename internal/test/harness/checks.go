// This file checks what a test has got.

package harness

import (
	"fmt"
	"slices"
	"strings"
)

// Test is what a check may fail: a testing.TB, or a test of package rapid.
type Test interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// OK ends the test if err is not nil.
func OK(t Test, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// Must returns what a call has returned, and ends the test if that was an error:
//
//	n := harness.Must(queue.Size(ctx))(t)
func Must[T any](v T, err error) func(Test) T {
	return func(t Test) T {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
		return v
	}
}

// Equal fails the test, which goes on, if got is not want. The failure says what it is.
func Equal[T comparable](t Test, what string, got, want T) {
	if got == want {
		return
	}
	t.Helper()
	if _, text := any(got).(string); text {
		t.Errorf("%s: %q, want %q", what, got, want)
	} else {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Check fails the test, which goes on, if err is not nil.
func Check(t Test, err error) {
	if err != nil {
		t.Helper()
		t.Errorf("%v", err)
	}
}

// EqualList is Equal for lists.
func EqualList[T comparable](t Test, what string, got, want []T) {
	if !slices.Equal(got, want) {
		t.Helper()
		t.Errorf("%s: %s, want %s", what, quoted(got), quoted(want))
	}
}

// quoted makes the borders between strings visible.
func quoted[T any](list []T) string {
	if texts, ok := any(list).([]string); ok {
		return fmt.Sprintf("%q", texts)
	}
	return fmt.Sprintf("%+v", list)
}

// ErrorHas fails the test, which goes on, if err is nil or its text does not have want.
func ErrorHas(t Test, what string, err error, want string) {
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Helper()
		t.Errorf("%s: error %v, want one with %q", what, err, want)
	}
}
