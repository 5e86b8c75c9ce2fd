// This file checks what a test has got.

package harness

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
