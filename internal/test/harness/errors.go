// This file ends tests that an error has met.

package harness

// Test is what ends a test: a testing.TB, or a test of package rapid.
type Test interface {
	Helper()
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
