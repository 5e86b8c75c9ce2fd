package wirejson

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Fault says which part of a Go value has no place in a job: see troupe.EncodeError.
type Fault struct {
	Path   string
	Reason string
	Err    error
}

// Encode returns v as Ruby's generator would write it, by the rules of
// troupe.Payload.SetJSON, for a place inside depth containers.
func Encode(v any, depth int) ([]byte, *Fault) {
	out, err := appendAny(nil, v, depth)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// appendAny takes the types that untyped arguments are made of the short way.
func appendAny(dst []byte, v any, depth int) ([]byte, *Fault) {
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
	return AppendReflect(dst, reflect.ValueOf(v), depth)
}

var (
	marshalerType     = reflect.TypeFor[json.Marshaler]()
	textMarshalerType = reflect.TypeFor[encoding.TextMarshaler]()
	numberType        = reflect.TypeFor[json.Number]()
	rawType           = reflect.TypeFor[json.RawMessage]()
)

// AppendReflect writes any value, which will be inside of depth containers.
func AppendReflect(dst []byte, v reflect.Value, depth int) ([]byte, *Fault) {
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
	return AppendKind(dst, v, depth)
}

// AppendKind writes a value that does not encode itself, by its kind.
func AppendKind(dst []byte, v reflect.Value, depth int) ([]byte, *Fault) {
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
		if v.Type().Elem().Kind() == reflect.Uint8 && !Marshals(v.Type().Elem()) {
			return appendBase64(dst, v.Bytes()), nil
		}
		return appendList(dst, v, depth+1)
	case reflect.Array:
		return appendList(dst, v, depth+1)
	default:
		return nil, &Fault{Reason: "no JSON for a Go " + v.Type().String()}
	}
}

// appendMarshaler handles the types that encode themselves; done is false for
// all others.
func appendMarshaler(dst []byte, v reflect.Value, depth int) (out []byte, done bool, err *Fault) {
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
	if !Marshals(t) {
		if t.Kind() == reflect.Pointer || !Marshals(reflect.PointerTo(t)) {
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
			return nil, true, &Fault{Reason: "MarshalJSON of " + t.String(), Err: failed}
		}
		out, err = appendRaw(dst, text, depth)
		return out, true, err
	}
	text, failed := v.Interface().(encoding.TextMarshaler).MarshalText()
	if failed != nil {
		return nil, true, &Fault{Reason: "MarshalText of " + t.String(), Err: failed}
	}
	out, err = appendCheckedString(dst, string(text))
	return out, true, err
}

// Marshals reports whether t has its own JSON or text form.
func Marshals(t reflect.Type) bool {
	return t.Implements(marshalerType) || t.Implements(textMarshalerType)
}

func appendList(dst []byte, v reflect.Value, depth int) ([]byte, *Fault) {
	if depth > MaxDepth {
		return nil, tooDeep()
	}
	dst = append(dst, '[')
	for i := range v.Len() {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err *Fault
		if dst, err = AppendReflect(dst, v.Index(i), depth); err != nil {
			return nil, err.In("[" + strconv.Itoa(i) + "]")
		}
	}
	return append(dst, ']'), nil
}

func appendMap(dst []byte, v reflect.Value, depth int) ([]byte, *Fault) {
	if depth > MaxDepth {
		return nil, tooDeep()
	}
	if v.Type().Key().Kind() != reflect.String {
		return nil, &Fault{Reason: "map keys must be strings, not " + v.Type().Key().String()}
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
		var err *Fault
		if dst, err = appendCheckedString(dst, key.String()); err != nil {
			return nil, err.In("key " + strconv.Quote(key.String()))
		}
		dst = append(dst, ':')
		if dst, err = AppendReflect(dst, v.MapIndex(key), depth); err != nil {
			return nil, err.In("[" + strconv.Quote(key.String()) + "]")
		}
	}
	return append(dst, '}'), nil
}

func appendStruct(dst []byte, v reflect.Value, depth int) ([]byte, *Fault) {
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
		var fault *Fault
		if dst, fault = AppendReflect(dst, fv, depth); fault != nil {
			return nil, fault.In("." + f.name)
		}
		if f.quoted && string(dst[start:]) != "null" {
			text := string(dst[start:])
			dst = appendString(dst[:start], text)
		}
	}
	return append(dst, '}'), nil
}

// In puts a step in front of the path of a fault, on the way out.
func (e *Fault) In(step string) *Fault {
	e.Path = step + e.Path
	return e
}

func tooDeep() *Fault {
	return &Fault{Reason: "nested deeper than " + strconv.Itoa(MaxDepth) + " levels"}
}
