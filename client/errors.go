package client

import (
	"encoding/json"
	"errors"
	"fmt"
)

// ErrStopped may be returned by a Middleware to stop a push, which is then no
// error for the caller: the jid is "". Returning nil without calling next does
// the same; the error lets outer middleware see it.
var ErrStopped = errors.New("push stopped by middleware")

// FieldError says which part of a push breaks the rules. Nothing was sent.
type FieldError struct {
	Field string // key of the payload or name of the option: "queue", "retry_for", "at"
	Got   string // what was given; of arguments never more than their JSON kind
	Want  string // what is expected
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: got %s, want %s", e.Field, e.Got, e.Want)
}

// MiddlewareError is a push that a Middleware has failed: Err is what it
// returned, a *troupe.PanicError, or a *FieldError for the payload it left
// behind. Nothing was sent.
type MiddlewareError struct{ Err error }

func (e *MiddlewareError) Error() string { return "client middleware: " + e.Err.Error() }

func (e *MiddlewareError) Unwrap() error { return e.Err }

// kind names the JSON type of a value without showing it.
func kind(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}
