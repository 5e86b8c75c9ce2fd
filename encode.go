package troupe

import (
	"fmt"

	"github.com/troupehq/troupe/internal/wirejson"
)

// MaxDepth is how deep arrays and objects of a job may nest, the job object
// itself counted: Ruby's parser refuses level 101.
const MaxDepth = wirejson.MaxDepth

// EncodeError says which part of a Go value has no place in a job.
type EncodeError struct {
	Path   string // from the value down: "[2].Price", `["k"]`; "" for the value itself
	Reason string
	Err    error // of a MarshalJSON or MarshalText method, else nil
}

func (e *EncodeError) Error() string {
	where := ""
	if e.Path != "" {
		where = " " + e.Path
	}
	if e.Err != nil {
		return fmt.Sprintf("encode JSON%s: %s: %v", where, e.Reason, e.Err)
	}
	return fmt.Sprintf("encode JSON%s: %s", where, e.Reason)
}

func (e *EncodeError) Unwrap() error { return e.Err }

// EncodeJSON returns v as Ruby's generator would write it, byte for byte,
// since Ruby finds jobs in sorted sets by their exact bytes: no spaces; <, >,
// &, U+2028 and all non-ASCII raw; whole floats with a fraction ("100.0").
//
// Go types map as in encoding/json, with the same struct tags (json:"name",
// omitempty, omitzero, string). json.Marshaler and encoding.TextMarshaler are
// honoured, those with pointer receivers always. Maps are sorted by key. What a
// Marshaler, a json.RawMessage or a json.Number gives is rewritten to the text
// that Ruby would write after reading it: integers of any length stay, all other
// numbers become doubles (1e3 is 1000.0, 1.10 is 1.1, -0 is 0), and of a key that
// comes twice the last value stands at the first place.
//
// It fails with an *EncodeError on NaN, infinities and numbers beyond the largest
// double (1e999, with its position in the text), invalid UTF-8, map keys
// that are not strings, channels, functions and complex numbers, and on values
// nested deeper than MaxDepth, endless ones among them.
func EncodeJSON(v any) ([]byte, error) {
	text, fault := wirejson.Encode(v, 0)
	if fault != nil {
		return nil, (*EncodeError)(fault)
	}
	return text, nil
}
