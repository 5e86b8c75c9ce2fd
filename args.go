package troupe

import (
	"encoding/json"
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

// DecodeArgs sets into, a non-nil pointer to a type of arguments (see
// Args), from the JSON array of a payload's "args". No array at all, and
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
