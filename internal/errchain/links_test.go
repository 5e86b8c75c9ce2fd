package errchain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
)

// circular wraps what it is told to, also itself.
type circular struct{ next error }

func (e *circular) Error() string { return "circular" }
func (e *circular) Unwrap() error { return e.next }

// bottomless wraps a new error each time it is asked.
type bottomless struct{ depth int }

func (e bottomless) Error() string { return "bottomless" }
func (e bottomless) Unwrap() []error {
	return []error{bottomless{e.depth + 1}, bottomless{-e.depth - 1}}
}

// slice cannot be compared.
type slice []error

func (e slice) Error() string   { return "slice" }
func (e slice) Unwrap() []error { return e }

// itself is its own match, by Is and As.
type itself struct{}

func (itself) Error() string        { return "itself" }
func (itself) Is(target error) bool { return target == io.EOF }
func (itself) As(target any) bool {
	p, ok := target.(**fs.PathError)
	if ok {
		*p = &fs.PathError{Op: "as"}
	}
	return ok
}

func circle(n int) error {
	first := &circular{}
	last := first
	for range n - 1 {
		next := &circular{}
		last.next, last = next, next
	}
	last.next = first
	return first
}

func TestAWalkEnds(t *testing.T) {
	self := slice{nil, io.EOF}
	self[0] = self
	for name, tt := range map[string]struct {
		err  error
		want int
	}{
		"nil":                           {nil, 0},
		"one":                           {io.EOF, 1},
		"a chain":                       {fmt.Errorf("a: %w", fmt.Errorf("b: %w", io.EOF)), 3},
		"a tree":                        {errors.Join(io.EOF, fmt.Errorf("%w, %w", io.ErrUnexpectedEOF, io.EOF)), 4},
		"itself":                        {circle(1), 1},
		"a circle":                      {circle(3), 3},
		"a circle in a tree":            {errors.Join(circle(3), circle(2), io.EOF), 7},
		"a circle longer than the walk": {circle(3 * Most), Most},
		"without an end":                {bottomless{1}, Most},
		"a value that is not compared":  {self, Most},
	} {
		harness.Equal(t, name+": errors", len(slices.Collect(all(tt.err))), tt.want)
		_ = Innermost(fmt.Errorf("%w", tt.err)) // it ends
		if Is(tt.err, os.ErrExist) {
			t.Errorf("%s: Is finds what is not there", name)
		}
		if _, ok := As[*fs.PathError](tt.err); ok {
			t.Errorf("%s: As finds what is not there", name)
		}
	}
}

// Where package errors comes to an end, the answers are its own.
func TestTheAnswersAreThoseOfPackageErrors(t *testing.T) {
	path := &fs.PathError{Op: "open", Err: fs.ErrNotExist}
	for _, err := range []error{
		nil, io.EOF, path, itself{}, slice{io.EOF, path}, fmt.Errorf("x: %w", path), errors.Join(io.EOF, fmt.Errorf("y: %w", path), itself{}),
		errors.Join(slice{}, fmt.Errorf("z: %w", itself{})), context.DeadlineExceeded,
	} {
		for _, target := range []error{nil, io.EOF, path, fs.ErrNotExist, slice{}, itself{}, context.Canceled} {
			if got, want := Is(err, target), errors.Is(err, target); got != want {
				t.Errorf("Is(%v, %v) = %t, want %t", err, target, got, want)
			}
		}
		got, ok := As[*fs.PathError](err)
		want, wantOK := errors.AsType[*fs.PathError](err)
		if ok != wantOK || ok && *got != *want {
			t.Errorf("As(%v) = %v, %t, want %v, %t", err, got, ok, want, wantOK)
		}
		named, ok := As[interface {
			error
			Timeout() bool
		}](err)
		other, wantOK := errors.AsType[interface {
			error
			Timeout() bool
		}](err)
		if ok != wantOK || named != other {
			t.Errorf("As(%v) by method = %v, %t, want %v, %t", err, named, ok, other, wantOK)
		}
	}
	// further in than a circle
	if !Is(errors.Join(circle(3), io.EOF), io.EOF) {
		t.Error("Is does not find what stands beside a circle")
	}
	if inner := Innermost(fmt.Errorf("a: %w", fmt.Errorf("b: %w", io.EOF))); !errors.Is(inner, io.EOF) || errors.Unwrap(inner) != nil {
		t.Errorf("the innermost is %v", inner)
	}
}

func TestAnErrorThatPanicsIsNothing(t *testing.T) {
	err := fmt.Errorf("x: %w", struct{ *circular }{}) // Unwrap of nil
	if _, ok := As[*fs.PathError](err); ok || Is(err, io.EOF) {
		t.Error("something was found")
	}
	if inner := Innermost(err); inner != err { //nolint:errorlint // this very one
		t.Errorf("the innermost is %T", inner)
	}
}

// Every job that succeeds is asked what its error asks for.
func TestNoErrorCostsNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { _, _ = As[*fs.PathError](nil) }); n != 0 {
		t.Errorf("As of no error makes %v allocations", n)
	}
}
