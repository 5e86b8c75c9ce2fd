package args

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/troupehq/troupe/internal/wirejson"
)

// set sets v, which is zero, from the text of argument i.
func (f *field) set(v reflect.Value, text []byte, i int) *Fault {
	if text[0] == 'n' && f.optional {
		return nil
	}
	if text[0] == 'n' && !f.nullable {
		return f.mismatch(v.Type(), text, i)
	}
	if f.plain {
		if !setPlain(v, text) {
			return f.mismatch(v.Type(), text, i)
		}
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	err := decoder.Decode(v.Addr().Interface())
	if err == nil {
		return nil
	}
	fault := f.mismatch(v.Type(), text, i)
	if inner, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		fault.Field = joinPath(fault.Field, inner.Field)
		fault.Expected = inner.Type.String()
		fault.Got = gotValue(inner.Value)
		return fault
	}
	fault.Got += " that does not fit"
	fault.Err = err
	return fault
}

// setAll sets a slice to the arguments from number first on.
func (f *field) setAll(v reflect.Value, list [][]byte, first int) *Fault {
	v.Set(reflect.MakeSlice(v.Type(), len(list), len(list)))
	for i, text := range list {
		if err := f.set(v.Index(i), text, first+i); err != nil {
			return err
		}
	}
	return nil
}

// setPlain sets a string, boolean or number; false if the text is of another
// type or does not fit.
func setPlain(v reflect.Value, text []byte) bool {
	switch v.Kind() {
	case reflect.String:
		if text[0] != '"' {
			return false
		}
		if bytes.IndexByte(text, '\\') < 0 && utf8.Valid(text) {
			v.SetString(string(text[1 : len(text)-1]))
			return true
		}
		v.SetString(string([]rune(wirejson.Unquote(text)))) // bytes that are not UTF-8 become U+FFFD
		return true
	case reflect.Bool:
		if text[0] != 't' && text[0] != 'f' {
			return false
		}
		v.SetBool(text[0] == 't')
		return true
	default:
		return setNumber(v, text)
	}
}

func setNumber(v reflect.Value, text []byte) bool {
	if text[0] != '-' && !wirejson.IsDigit(text[0]) {
		return false
	}
	switch {
	case v.CanInt():
		n, err := strconv.ParseInt(string(text), 10, v.Type().Bits())
		v.SetInt(n)
		return err == nil
	case v.CanUint():
		n, err := strconv.ParseUint(string(text), 10, v.Type().Bits())
		v.SetUint(n)
		return err == nil
	default:
		n, err := strconv.ParseFloat(string(text), v.Type().Bits())
		v.SetFloat(n)
		return err == nil
	}
}

func (f *field) mismatch(t reflect.Type, text []byte, i int) *Fault {
	got := wirejson.KindOf(text)
	if got == "a number" && f.plain && t.Kind() != reflect.String && t.Kind() != reflect.Bool {
		got = "a number that does not fit"
	}
	return &Fault{Index: i, Field: f.name, Expected: t.String(), Got: got}
}

// gotValue turns the word of encoding/json for what it met ("number 300") into
// ours, without the value.
func gotValue(value string) string {
	word, detail, _ := strings.Cut(value, " ")
	switch {
	case word == "bool":
		return "a boolean"
	case word == "number" && detail != "":
		return "a number that does not fit"
	case word == "array", word == "object":
		return "an " + word
	}
	return "a " + word
}

func joinPath(field, inner string) string {
	if field == "" || inner == "" {
		return field + inner
	}
	return field + "." + inner
}

// codesItself reports whether t has its own JSON or text form in either direction.
func codesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return wirejson.Marshals(p) || p.Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}
