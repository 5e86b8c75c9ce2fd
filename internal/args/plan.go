package args

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/troupehq/troupe/internal/wirejson"
)

// Plan tells how a Go type and a list of arguments map to each other.
type Plan struct {
	shape    shape
	fields   []field // of shapePositional, by position
	required int     // how many of fields are not optional
	rest     *field  // elements of the slice with arg:"*", or nil
	each     field   // the one value of shapeOne, the elements of shapeList
	simple   bool    // nothing but plain fields: readSimple may try
}

type shape int

const (
	shapePositional shape = iota // a struct with arg tags, or an empty one
	shapeOne                     // the value is args[0]
	shapeList                    // the value is the whole array
)

// field is how one argument is read.
type field struct {
	name     string // of the struct field, "" outside of a struct
	index    int    // of the struct field
	optional bool
	plain    bool // a kind that setPlain reads and wirejson.AppendKind writes
	nullable bool // null is a value of it

	kind   reflect.Kind
	wide   bool    // an int64, or an int that is one
	offset uintptr // of the struct field
}

// plans caches the plan of each type. A plan depends on the type alone.
var plans sync.Map // reflect.Type → *Plan

var numberType = reflect.TypeFor[json.Number]()

// PlanOf returns the plan of t, a pointer standing for what it points to.
// An error is a mistake in the program and names type, field and expectation.
func PlanOf(t reflect.Type) (*Plan, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if known, ok := plans.Load(t); ok {
		return known.(*Plan), nil
	}
	plan, err := newPlan(t)
	if err != nil {
		return nil, err
	}
	known, _ := plans.LoadOrStore(t, plan)
	return known.(*Plan), nil
}

func newPlan(t reflect.Type) (*Plan, error) {
	switch t.Kind() {
	case reflect.Struct:
		if positional(t) {
			return newPositionalPlan(t)
		}
	case reflect.Slice:
		if !codesItself(t) && t.Elem().Kind() != reflect.Uint8 {
			return &Plan{shape: shapeList, each: newField(t.Elem())}, nil
		}
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128,
		reflect.UnsafePointer, reflect.Interface, reflect.Array:
		return nil, fmt.Errorf("%v: expected a struct, slice, map or plain value for arguments, got a Go %v", t, t.Kind())
	default: // one argument, too
	}
	return &Plan{shape: shapeOne, each: newField(t)}, nil
}

// positional reports whether a struct has arg tags, or nothing to encode at all.
func positional(t reflect.Type) bool {
	empty := true
	for f := range t.Fields() {
		if _, tagged := f.Tag.Lookup("arg"); tagged {
			return true
		}
		empty = empty && !f.IsExported() && !f.Anonymous
	}
	return empty && !codesItself(t)
}

func newPositionalPlan(t reflect.Type) (*Plan, error) {
	plan := &Plan{}
	at := make(map[int]field)
	for i := range t.NumField() {
		sf := t.Field(i)
		tag, tagged := sf.Tag.Lookup("arg")
		bad := func(expected string) error {
			return fmt.Errorf("%v.%s: tag arg:%q: %s", t, sf.Name, tag, expected)
		}
		switch {
		case tag == "-", !tagged && !sf.IsExported() && !sf.Anonymous:
			continue
		case !tagged:
			return nil, fmt.Errorf(`%v.%s: expected an arg tag as on the other fields, or arg:"-"`, t, sf.Name)
		case !sf.IsExported():
			return nil, bad("expected an exported field")
		case tag == "*" && plan.rest != nil:
			return nil, bad(`expected only one "*"`)
		case tag == "*" && sf.Type.Kind() != reflect.Slice:
			return nil, bad("expected a slice for the rest of the arguments")
		}
		if tag == "*" {
			rest := newField(sf.Type.Elem())
			rest.name, rest.index = sf.Name, i
			plan.rest = &rest
			continue
		}
		number, option, _ := strings.Cut(tag, ",")
		n, err := strconv.Atoi(number)
		if err != nil || n < 0 || option != "" && option != "optional" {
			return nil, bad(`expected a position from 0, "N,optional", "*" or "-"`)
		}
		if other, taken := at[n]; taken {
			return nil, bad("position taken by field " + other.name)
		}
		field := newField(sf.Type)
		field.name, field.index, field.offset, field.optional = sf.Name, i, sf.Offset, option != ""
		at[n] = field
	}
	for n := range len(at) {
		field, ok := at[n]
		if !ok {
			return nil, fmt.Errorf("%v: expected positions without gaps, none is arg:\"%d\"", t, n)
		}
		if !field.optional {
			if plan.required < n {
				return nil, fmt.Errorf("%v.%s: expected optional after an optional position", t, field.name)
			}
			plan.required = n + 1
		}
		plan.fields = append(plan.fields, field)
	}
	plan.simple = plan.rest == nil && !slices.ContainsFunc(plan.fields, func(f field) bool { return !f.plain })
	return plan, nil
}

func newField(t reflect.Type) field {
	f := field{kind: t.Kind()}
	switch f.kind {
	case reflect.Pointer, reflect.Interface, reflect.Map, reflect.Slice:
		f.nullable = true
	default:
		f.nullable = reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
		f.plain = wirejson.Scalar(t) && !codesItself(t) && t != numberType
		f.wide = f.kind == reflect.Int64 || f.kind == reflect.Int && strconv.IntSize == 64
	}
	return f
}

// room holds the arguments of most jobs.
const room = 64

// Encode returns the array for v.
func (p *Plan) Encode(v reflect.Value) ([]byte, *wirejson.Fault) {
	out, err := append(make([]byte, 0, room), '['), (*wirejson.Fault)(nil)
	switch p.shape {
	case shapeOne:
		if out, err = p.each.append(out, v); err != nil {
			return nil, err.In("[0]")
		}
	case shapeList:
		out, err = p.each.appendAll(out, v, 0)
	case shapePositional:
		for i, f := range p.fields[:p.used(v)] {
			if i > 0 {
				out = append(out, ',')
			}
			if out, err = f.append(out, v.Field(f.index)); err != nil {
				return nil, err.In("[" + strconv.Itoa(i) + "] (" + f.name + ")")
			}
		}
		if p.rest != nil {
			out, err = p.rest.appendAll(out, v.Field(p.rest.index), len(p.fields))
		}
	}
	if err != nil {
		return nil, err
	}
	return append(out, ']'), nil
}

// used returns how many positions are written: optional zeros at the end are
// left out, unless something follows them.
func (p *Plan) used(v reflect.Value) int {
	n := len(p.fields)
	if p.rest != nil && v.Field(p.rest.index).Len() > 0 {
		return n
	}
	for n > p.required && v.Field(p.fields[n-1].index).IsZero() {
		n--
	}
	return n
}

// append writes one argument.
func (f *field) append(out []byte, v reflect.Value) ([]byte, *wirejson.Fault) {
	if f.plain {
		return wirejson.AppendKind(out, v, 2)
	}
	return wirejson.AppendReflect(out, v, 2)
}

// appendAll writes the elements of a slice as the arguments from first on.
func (f *field) appendAll(out []byte, list reflect.Value, first int) ([]byte, *wirejson.Fault) {
	for i := range list.Len() {
		if first+i > 0 {
			out = append(out, ',')
		}
		var err *wirejson.Fault
		if out, err = f.append(out, list.Index(i)); err != nil {
			return nil, err.In("[" + strconv.Itoa(first+i) + "]")
		}
	}
	return out, nil
}

// decode sets v, which is zero, from the texts of all arguments.
func (p *Plan) decode(list [][]byte, v reflect.Value) *Fault {
	switch p.shape {
	case shapeOne:
		if len(list) != 1 {
			return wrongCount(1, 1, len(list))
		}
		return p.each.set(v, list[0], 0)
	case shapeList:
		return p.each.setAll(v, list, 0)
	case shapePositional:
	}
	most := len(p.fields)
	if p.rest != nil {
		most = -1
	}
	if len(list) < p.required || most >= 0 && len(list) > most {
		return wrongCount(p.required, most, len(list))
	}
	for i := range min(len(list), len(p.fields)) {
		f := &p.fields[i]
		if err := f.set(v.Field(f.index), list[i], i); err != nil {
			return err
		}
	}
	if p.rest != nil && len(list) > len(p.fields) {
		return p.rest.setAll(v.Field(p.rest.index), list[len(p.fields):], len(p.fields))
	}
	return nil
}

func wrongCount(least, most, got int) *Fault {
	expected := countOf(least)
	switch {
	case most < 0:
		expected = "at least " + expected
	case most > least:
		expected = strconv.Itoa(least) + " to " + countOf(most)
	}
	return &Fault{Index: -1, Expected: expected, Got: strconv.Itoa(got)}
}

func countOf(n int) string {
	if n == 1 {
		return "1 argument"
	}
	return strconv.Itoa(n) + " arguments"
}
