package wirejson

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// structField is one member of the JSON object that a struct stands for.
type structField struct {
	name   string
	label  []byte // name as a JSON string
	index  []int  // for reflect.Value.FieldByIndex
	tagged bool   // the name comes from a tag

	omitEmpty, omitZero, quoted bool

	isZero func(reflect.Value) bool // set if omitZero
}

// structFields remembers the fields of each struct type ever encoded: a pure
// function of the type, so sharing it is not state.
var structFields sync.Map // reflect.Type → []structField

// structFieldsOf returns the members of t in the order they are written, by
// the rules of encoding/json: embedded structs are flattened; of one name the
// shallowest field counts, among those the only tagged one, else none.
func structFieldsOf(t reflect.Type) []structField {
	if known, ok := structFields.Load(t); ok {
		return known.([]structField)
	}
	found := collectFields(t, nil, map[reflect.Type]bool{})
	fields := slices.DeleteFunc(slices.Clone(found), func(f structField) bool {
		return !dominates(f, found)
	})
	slices.SortStableFunc(fields, func(a, b structField) int { return slices.Compare(a.index, b.index) })
	known, _ := structFields.LoadOrStore(t, fields)
	return known.([]structField)
}

// collectFields walks t and its embedded structs; within are the types being
// walked, since a struct may embed a pointer to itself.
func collectFields(t reflect.Type, index []int, within map[reflect.Type]bool) []structField {
	if within[t] {
		return nil
	}
	within[t] = true
	defer delete(within, t)
	var found []structField
	for i := range t.NumField() {
		sf := t.Field(i)
		tag := sf.Tag.Get("json")
		at := append(slices.Clone(index), i)
		inner := sf.Type
		if inner.Kind() == reflect.Pointer && inner.Name() == "" {
			inner = inner.Elem()
		}
		embedded := sf.Anonymous && inner.Kind() == reflect.Struct
		promotes := embedded && sf.Type.Kind() == reflect.Struct // even if its own name is unexported
		if tag == "-" || !sf.IsExported() && !promotes {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if !validName(name) {
			name = ""
		}
		if embedded && name == "" {
			found = append(found, collectFields(inner, at, within)...)
			continue
		}
		if !sf.IsExported() {
			continue
		}
		found = append(found, newField(sf, name, options, at))
	}
	return found
}

func newField(sf reflect.StructField, name, options string, index []int) structField {
	f := structField{name: name, index: index, tagged: name != ""}
	if !f.tagged {
		f.name = sf.Name
	}
	f.label = appendString(nil, f.name)
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "omitempty":
			f.omitEmpty = true
		case "omitzero":
			f.omitZero = true
			f.isZero = zeroTest(sf.Type)
		case "string":
			f.quoted = Scalar(sf.Type)
		}
	}
	return f
}

// dominates reports whether f wins its name among all fields found.
func dominates(f structField, all []structField) bool {
	for _, other := range all {
		if other.name != f.name || slices.Equal(other.index, f.index) {
			continue
		}
		switch c := cmp.Compare(len(other.index), len(f.index)); {
		case c < 0:
			return false
		case c == 0 && (other.tagged || !f.tagged):
			return false
		}
	}
	return true
}

// skips reports whether the field is left out for being empty.
func (f *structField) skips(v reflect.Value) bool {
	if f.omitZero && f.isZero(v) {
		return true
	}
	if !f.omitEmpty {
		return false
	}
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	default:
		return v.IsZero()
	}
}

// zeroTest returns the test of omitzero: the type's own IsZero if it has one.
func zeroTest(t reflect.Type) func(reflect.Value) bool {
	type zeroer interface{ IsZero() bool }
	zeroerType := reflect.TypeFor[zeroer]()
	nilable := t.Kind() == reflect.Interface || t.Kind() == reflect.Pointer
	switch {
	case nilable && t.Implements(zeroerType):
		return func(v reflect.Value) bool { return v.IsNil() || v.Interface().(zeroer).IsZero() }
	case t.Implements(zeroerType):
		return func(v reflect.Value) bool { return v.Interface().(zeroer).IsZero() }
	case reflect.PointerTo(t).Implements(zeroerType):
		return func(v reflect.Value) bool {
			if !v.CanAddr() {
				copied := reflect.New(t).Elem()
				copied.Set(v)
				v = copied
			}
			return v.Addr().Interface().(zeroer).IsZero()
		}
	}
	return reflect.Value.IsZero
}

// Scalar reports whether the option "string" applies to t.
func Scalar(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return true
	default:
		return false
	}
}

// validName reports whether encoding/json takes name from a tag.
func validName(name string) bool {
	for _, r := range name {
		if !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return false
		}
	}
	return true
}
