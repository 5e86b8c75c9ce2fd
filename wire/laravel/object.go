package laravel

import (
	"fmt"
	"slices"
)

// Object is a PHP object as serialize() has written it: a job, or an object in one. It is only
// read: nothing makes PHP's text of it again.
//
// A value is nil, a bool, int64, float64, string (bytes, mostly UTF-8), *Array, *Object, Enum or
// Opaque. What PHP refers to twice is one pointer here; so an object may contain itself.
//
// An Eloquent model is an object of class Illuminate\Contracts\Database\ModelIdentifier with the
// properties class, id, relations and connection; a collection has its values in the property items.
type Object struct {
	Class      string // with its namespace, as in App\Jobs\Resize
	Properties []Property
}

// Property is a property of an object. One that is missing is unknown, not null: Laravel leaves
// out a property that equals its default in the class.
type Property struct {
	Name  string // without its scope; a number in decimal where a class writes itself as a list
	Scope string // "" for public, "*" for protected, for private the class that declares it
	Value any
}

// Array is a PHP array, in its order. It is a list if its keys are 0, 1, 2 and so on.
type Array struct {
	Keys   []any // int64 or string
	Values []any
}

// Enum is a case of an enum. Only PHP knows its backing value.
type Enum struct{ Class, Case string }

// Opaque is an object that is written by code of its class (PHP's Serializable), in Bytes.
type Opaque struct{ Class, Bytes string }

// Get returns the value of a property: the public one of that name, else the protected one, else
// the private one of the object's class itself.
func (o *Object) Get(name string) (value any, ok bool) {
	for _, scope := range []string{"", "*", o.Class} {
		for _, p := range o.Properties {
			if p.Name == name && p.Scope == scope {
				return p.Value, true
			}
		}
	}
	return nil, false
}

// Get returns the value of a key, which is an int, int64 or string.
func (a *Array) Get(key any) (value any, ok bool) {
	if n, is := key.(int); is {
		key = int64(n)
	}
	i := slices.Index(a.Keys, key)
	if i < 0 {
		return nil, false
	}
	return a.Values[i], true
}

// List returns the values if the array is a list. An empty array is one.
func (a *Array) List() ([]any, bool) {
	for i, key := range a.Keys {
		if key != int64(i) {
			return nil, false
		}
	}
	return a.Values, true
}

// Int returns the value of a property that is an int. This and the methods below give an error if
// the property is missing, null or of another kind.
func (o *Object) Int(name string) (int64, error) { return read[int64](o, name) }

// String returns the value of a property that is a string.
func (o *Object) String(name string) (string, error) { return read[string](o, name) }

// Bool returns the value of a property that is a bool.
func (o *Object) Bool(name string) (bool, error) { return read[bool](o, name) }

// Float returns the value of a property that is a float or an int.
func (o *Object) Float(name string) (float64, error) {
	if n, err := o.Int(name); err == nil {
		return float64(n), nil
	}
	return read[float64](o, name)
}

// Object returns the value of a property that is an object.
func (o *Object) Object(name string) (*Object, error) { return read[*Object](o, name) }

// bookkeeping are the properties that Laravel's traits give a job.
var bookkeeping = []string{
	"job", "connection", "queue", "delay", "afterCommit", "middleware",
	"chained", "chainConnection", "chainQueue", "chainCatchCallbacks",
	"messageGroup", "deduplicator", "debounceOwner", "uniqueLockOwner",
}

// Data returns the properties without those that Laravel's own traits give a job, such as queue
// and delay.
func (o *Object) Data() []Property {
	return slices.DeleteFunc(slices.Clone(o.Properties), func(p Property) bool {
		return slices.Contains(bookkeeping, p.Name)
	})
}

// chained reports whether jobs are to follow this one.
func (o *Object) chained() bool {
	v, _ := o.Get("chained")
	jobs, ok := v.(*Array)
	return ok && len(jobs.Values) > 0
}

// read returns the value of a property of type T. Errors show no values: they may be secret.
func read[T any](o *Object, name string) (T, error) {
	v, known := o.Get(name)
	t, ok := v.(T)
	if !known {
		return t, fmt.Errorf("laravel: %s has no property %s here, expected %T (Laravel leaves out what equals its default)", o.Class, name, t)
	}
	if !ok {
		return t, fmt.Errorf("laravel: the property %s of %s is of type %T, expected %T", name, o.Class, v, t)
	}
	return t, nil
}
