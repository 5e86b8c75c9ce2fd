package troupe

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

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
	return encode(v, 0)
}

// encode is EncodeJSON for a value that will stand inside depth containers.
func encode(v any, depth int) ([]byte, error) {
	out, err := appendAny(nil, v, depth)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// appendAny takes the types that untyped arguments are made of the short way.
func appendAny(dst []byte, v any, depth int) ([]byte, *EncodeError) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case string:
		return appendCheckedString(dst, v)
	case int:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case float64:
		return appendFloat(dst, v, 64)
	case json.Number:
		return appendNumber(dst, v)
	case json.RawMessage:
		return appendRaw(dst, v, depth)
	}
	return appendReflect(dst, reflect.ValueOf(v), depth)
}

var (
	marshalerType     = reflect.TypeFor[json.Marshaler]()
	textMarshalerType = reflect.TypeFor[encoding.TextMarshaler]()
	numberType        = reflect.TypeFor[json.Number]()
	rawType           = reflect.TypeFor[json.RawMessage]()
)

func appendReflect(dst []byte, v reflect.Value, depth int) ([]byte, *EncodeError) {
	for hops := 0; v.IsValid(); hops++ {
		if out, done, err := appendMarshaler(dst, v, depth); done {
			return out, err
		}
		if v.Kind() != reflect.Pointer && v.Kind() != reflect.Interface {
			break
		}
		if hops > MaxDepth {
			return nil, tooDeep()
		}
		v = v.Elem()
	}
	if !v.IsValid() {
		return append(dst, "null"...), nil
	}
	return appendKind(dst, v, depth)
}

// appendKind writes a value that does not encode itself, by its kind.
func appendKind(dst []byte, v reflect.Value, depth int) ([]byte, *EncodeError) {
	switch v.Kind() {
	case reflect.Bool:
		return strconv.AppendBool(dst, v.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(dst, v.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return strconv.AppendUint(dst, v.Uint(), 10), nil
	case reflect.Float32, reflect.Float64:
		return appendFloat(dst, v.Float(), v.Type().Bits())
	case reflect.String:
		return appendCheckedString(dst, v.String())
	case reflect.Struct:
		return appendStruct(dst, v, depth+1)
	case reflect.Map:
		return appendMap(dst, v, depth+1)
	case reflect.Slice:
		if v.IsNil() {
			return append(dst, "null"...), nil
		}
		if v.Type().Elem().Kind() == reflect.Uint8 && !marshals(v.Type().Elem()) {
			return appendBase64(dst, v.Bytes()), nil
		}
		return appendList(dst, v, depth+1)
	case reflect.Array:
		return appendList(dst, v, depth+1)
	default:
		return nil, &EncodeError{Reason: "no JSON for a Go " + v.Type().String()}
	}
}

// appendMarshaler handles the types that encode themselves; done is false for
// all others.
func appendMarshaler(dst []byte, v reflect.Value, depth int) (out []byte, done bool, err *EncodeError) {
	t := v.Type()
	switch t {
	case numberType:
		out, err = appendNumber(dst, json.Number(v.String()))
		return out, true, err
	case rawType:
		out, err = appendRaw(dst, v.Bytes(), depth)
		return out, true, err
	}
	if t.Kind() == reflect.Interface {
		return nil, false, nil // its value is asked next
	}
	if !marshals(t) {
		if t.Kind() == reflect.Pointer || !marshals(reflect.PointerTo(t)) {
			return nil, false, nil
		}
		if !v.CanAddr() {
			copied := reflect.New(t).Elem()
			copied.Set(v)
			v = copied
		}
		v = v.Addr()
		t = v.Type()
	}
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return append(dst, "null"...), true, nil
	}
	if m, ok := reflect.TypeAssert[json.Marshaler](v); ok {
		text, failed := m.MarshalJSON()
		if failed != nil {
			return nil, true, &EncodeError{Reason: "MarshalJSON of " + t.String(), Err: failed}
		}
		out, err = appendRaw(dst, text, depth)
		return out, true, err
	}
	text, failed := v.Interface().(encoding.TextMarshaler).MarshalText()
	if failed != nil {
		return nil, true, &EncodeError{Reason: "MarshalText of " + t.String(), Err: failed}
	}
	out, err = appendCheckedString(dst, string(text))
	return out, true, err
}

func marshals(t reflect.Type) bool {
	return t.Implements(marshalerType) || t.Implements(textMarshalerType)
}

func appendList(dst []byte, v reflect.Value, depth int) ([]byte, *EncodeError) {
	if depth > MaxDepth {
		return nil, tooDeep()
	}
	dst = append(dst, '[')
	for i := range v.Len() {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err *EncodeError
		if dst, err = appendReflect(dst, v.Index(i), depth); err != nil {
			return nil, err.in("[" + strconv.Itoa(i) + "]")
		}
	}
	return append(dst, ']'), nil
}

func appendMap(dst []byte, v reflect.Value, depth int) ([]byte, *EncodeError) {
	if depth > MaxDepth {
		return nil, tooDeep()
	}
	if v.Type().Key().Kind() != reflect.String {
		return nil, &EncodeError{Reason: "map keys must be strings, not " + v.Type().Key().String()}
	}
	if v.IsNil() {
		return append(dst, "null"...), nil
	}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	dst = append(dst, '{')
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err *EncodeError
		if dst, err = appendCheckedString(dst, key.String()); err != nil {
			return nil, err.in("key " + strconv.Quote(key.String()))
		}
		dst = append(dst, ':')
		if dst, err = appendReflect(dst, v.MapIndex(key), depth); err != nil {
			return nil, err.in("[" + strconv.Quote(key.String()) + "]")
		}
	}
	return append(dst, '}'), nil
}

func appendStruct(dst []byte, v reflect.Value, depth int) ([]byte, *EncodeError) {
	if depth > MaxDepth {
		return nil, tooDeep()
	}
	dst = append(dst, '{')
	open := len(dst)
	for _, f := range structFieldsOf(v.Type()) {
		fv, err := v.FieldByIndexErr(f.index)
		if err != nil || f.skips(fv) {
			continue // an embedded pointer is nil, or omitempty, omitzero
		}
		if len(dst) > open {
			dst = append(dst, ',')
		}
		dst = append(append(dst, f.label...), ':')
		start := len(dst)
		var fault *EncodeError
		if dst, fault = appendReflect(dst, fv, depth); fault != nil {
			return nil, fault.in("." + f.name)
		}
		if f.quoted && string(dst[start:]) != "null" {
			text := string(dst[start:])
			dst = appendString(dst[:start], text)
		}
	}
	return append(dst, '}'), nil
}

// in puts a step in front of the path of a fault, on the way out.
func (e *EncodeError) in(step string) *EncodeError {
	e.Path = step + e.Path
	return e
}

func tooDeep() *EncodeError {
	return &EncodeError{Reason: "nested deeper than " + strconv.Itoa(MaxDepth) + " levels"}
}
