package troupe

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/troupehq/troupe/internal/args"
)

// ArgsError is the outcome of a job whose arguments do not fit the Go type of
// its handler: an ordinary failure, retried by the job's policy. Its text names
// places and types only, never the arguments themselves, since it is logged.
type ArgsError struct {
	Index    int    // of the argument, from 0; -1 for the list as a whole
	Field    string // Go field, with the path inside of it if there is one; may be ""
	Expected string // "2 arguments", "int64", …
	Got      string // "3 arguments", "a string", …
	Err      error  // of the type's own UnmarshalJSON or UnmarshalText, else nil; not part of the text
}

func (e *ArgsError) Error() string {
	where := "args"
	if e.Index >= 0 {
		where += "[" + strconv.Itoa(e.Index) + "]"
	}
	if e.Field != "" {
		where += " (" + e.Field + ")"
	}
	return fmt.Sprintf("%s: expected %s, got %s", where, e.Expected, e.Got)
}

func (e *ArgsError) Unwrap() error { return e.Err }

// EncodeArgs returns v, a value of a type of arguments or a pointer to one, as
// the JSON array of a payload's "args". The type decides what the array holds:
//
//   - A struct with arg tags stands for positional arguments, as in Ruby's
//     perform(a, b = nil, *rest): arg:"0", arg:"1" and so on without gaps;
//     arg:"2,optional" for the last ones; arg:"*" for a slice that takes the
//     rest; arg:"-" for a field that is no argument. A tagged struct must tag
//     every exported field.
//   - A struct without arg tags is one JSON object, by its json tags; an empty
//     struct is no argument at all.
//   - A slice is the whole list.
//   - Anything else (a map, a string, bytes in base64, a type with its own
//     MarshalJSON) is one argument.
//
// Optional arguments at the end that are zero are left out. Values are encoded
// by the rules of EncodeJSON, and fail as there.
func EncodeArgs(v any) (json.RawMessage, error) {
	rv := reflect.ValueOf(v)
	for rv.IsValid() && rv.Kind() == reflect.Pointer {
		rv = rv.Elem()
	}
	if !rv.IsValid() {
		return nil, errors.New("encode args: nil value")
	}
	plan, err := args.PlanOf(rv.Type())
	if err != nil {
		return nil, fmt.Errorf("encode args: %w", err)
	}
	text, fault := plan.Encode(rv)
	if fault != nil {
		return nil, fmt.Errorf("encode args: %w", (*EncodeError)(fault))
	}
	return text, nil
}

// DecodeArgs sets into, a non-nil pointer to a type of arguments (see
// EncodeArgs), from the JSON array of a payload's "args". No array at all, and
// null, count as no arguments, as they do in Ruby. Too few or too many
// arguments and values that do not fit are an *ArgsError, after which *into
// holds part of them.
//
// Integers must be written as integers and fit. null fits what has a nil
// (pointers, slices, maps, interfaces), types with their own UnmarshalJSON, and
// optional arguments, which stay zero. Numbers in fields of type any become
// json.Number, so that no digit is lost.
func DecodeArgs(raw json.RawMessage, into any) error {
	rv := reflect.ValueOf(into)
	if rv.Kind() != reflect.Pointer || rv.IsNil() {
		return fmt.Errorf("decode args: expected a pointer to decode into, got %T", into)
	}
	rv = rv.Elem()
	for rv.Kind() == reflect.Pointer {
		rv.Set(reflect.New(rv.Type().Elem()))
		rv = rv.Elem()
	}
	plan, err := args.PlanOf(rv.Type())
	if err != nil {
		return fmt.Errorf("decode args: %w", err)
	}
	if fault := plan.Decode(raw, rv); fault != nil {
		return (*ArgsError)(fault)
	}
	return nil
}
