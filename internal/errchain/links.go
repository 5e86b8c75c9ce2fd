// Package errchain walks what an error wraps, and gets the backtrace of a failure. The errors of
// handlers, callbacks and middleware are user code: one may wrap itself, and then the functions of
// package errors walk for ever; or a method of it may panic.
package errchain

import (
	"errors"
	"iter"
	"reflect"
)

// Most is how many errors a walk looks at.
const Most = 100

// all are err and the errors that it wraps, in the order of errors.Is: depth first, each once, and
// no more than Most.
func all(err error) iter.Seq[error] {
	return func(yield func(error) bool) {
		seen := make([]error, 0, 8)
		var visit func(error) bool
		visit = func(err error) bool {
			if err == nil || len(seen) == Most || has(seen, err) {
				return true
			}
			seen = append(seen, err)
			if !yield(err) {
				return false
			}
			switch e := err.(type) { //nolint:errorlint // the walk itself
			case interface{ Unwrap() error }:
				return visit(e.Unwrap())
			case interface{ Unwrap() []error }:
				for _, inner := range e.Unwrap() {
					if !visit(inner) {
						return false
					}
				}
			}
			return true
		}
		visit(err)
	}
}

// has reports whether err is one of seen. It is false for a value that cannot be compared.
func has(seen []error, err error) bool {
	if !reflect.TypeOf(err).Comparable() {
		return false
	}
	for _, other := range seen {
		if reflect.TypeOf(other) == reflect.TypeOf(err) && reflect.ValueOf(err).Comparable() && other == err { //nolint:errorlint // the same value
			return true
		}
	}
	return false
}

// Is is errors.Is. With an error that panics it is not.
func Is(err, target error) (is bool) {
	defer func() {
		if recover() != nil {
			is = false
		}
	}()
	if err == nil || target == nil {
		return err == target //nolint:errorlint // as errors.Is does
	}
	comparable := reflect.TypeOf(target).Comparable()
	for e := range all(err) {
		if comparable && e == target { //nolint:errorlint // the walk itself
			return true
		}
		if own, ok := e.(interface{ Is(error) bool }); ok && own.Is(target) {
			return true
		}
	}
	return false
}

// As is errors.AsType, but finds nothing in an error whose methods panic. It does not allocate if err is nil,
// since it is called for each job that succeeds.
func As[T error](err error) (found T, ok bool) {
	if err == nil {
		return found, false
	}
	return find[T](err)
}

// find is As without its look at nil: here found is on the heap, whatever err is.
func find[T error](err error) (found T, ok bool) {
	defer func() {
		if recover() != nil {
			var none T
			found, ok = none, false
		}
	}()
	for e := range all(err) {
		if found, ok := e.(T); ok { //nolint:errorlint // the walk itself
			return found, true
		}
		if own, has := e.(interface{ As(any) bool }); has && own.As(&found) {
			return found, true
		}
	}
	return found, false
}

// Innermost is the last error that single Unwraps reach from err. Of a circle it is the last one
// before it closes; of an error that panics, err.
func Innermost(err error) (inner error) {
	defer func() {
		if recover() != nil {
			inner = err
		}
	}()
	var seen []error
	for inner = err; len(seen) < Most; {
		seen = append(seen, inner)
		next := errors.Unwrap(inner)
		if next == nil || has(seen, next) {
			break
		}
		inner = next
	}
	return inner
}

// Has reports whether As finds something.
func Has[T error](err error) bool {
	_, ok := As[T](err)
	return ok
}
