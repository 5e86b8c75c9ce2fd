package laravel

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupehq/troupe/internal/test/harness"
)

func jobOf(properties ...Property) *Object { return &Object{Class: `App\Job`, Properties: properties} }

func public(name string, v any) Property { return Property{Name: name, Value: v} }

func TestObjectGet(t *testing.T) {
	above := Property{"a", `App\Base`, 4}
	private := Property{"a", `App\Job`, 3}
	protected := Property{"a", "*", 2}
	for _, c := range []struct {
		o    *Object
		want any
	}{
		{jobOf(above, private, protected, public("a", 1)), 1},
		{jobOf(above, private, protected), 2},
		{jobOf(above, private), 3},
		{jobOf(above, public("b", 5)), nil},
		{jobOf(public("a", nil)), nil},
	} {
		v, ok := c.o.Get("a")
		if v != c.want || ok != (c.want != nil || len(c.o.Properties) == 1) {
			t.Errorf("%v: %v %v, want %v", c.o.Properties, v, ok, c.want)
		}
	}
}

func TestArray(t *testing.T) {
	a := &Array{Keys: []any{int64(0), int64(1), "k"}, Values: []any{"a", "b", nil}}
	for _, c := range []struct {
		key, want any
		ok        bool
	}{{0, "a", true}, {int64(1), "b", true}, {"k", nil, true}, {2, nil, false}, {"1", nil, false}} {
		if v, ok := a.Get(c.key); v != c.want || ok != c.ok {
			t.Errorf("%#v: %v %v", c.key, v, ok)
		}
	}
	if _, ok := a.List(); ok {
		t.Error("an array with a key k is a list")
	}
	if v, ok := list("a", nil).List(); !ok || !cmp.Equal(v, []any{"a", nil}) {
		t.Errorf("%v %v", v, ok)
	}
	if v, ok := new(Array).List(); !ok || len(v) != 0 {
		t.Errorf("%v %v", v, ok)
	}
	if _, ok := (&Array{Keys: []any{int64(1), int64(0)}, Values: []any{1, 2}}).List(); ok {
		t.Error("an array in another order is a list")
	}
}

func TestObjectReaders(t *testing.T) {
	o := jobOf(public("int", int64(7)), public("string", "s"), public("bool", true), public("float", 1.5),
		public("object", jobOf()), public("null", nil))
	try := func(name string, read func(name string) (any, error)) {
		t.Helper()
		if v, err := read(name); err != nil || !cmp.Equal(v, map[string]any{
			"int": int64(7), "string": "s", "bool": true, "float": 1.5, "object": jobOf(),
		}[name]) {
			t.Errorf("%s: %v, %v", name, v, err)
		}
		for wrong, want := range map[string]string{
			"none": `laravel: App\Job has no property none here, expected `,
			"null": `laravel: the property null of App\Job is of type <nil>, expected `,
		} {
			if v, err := read(wrong); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: %v, %v", wrong, v, err)
			}
		}
	}
	try("int", func(s string) (any, error) { return o.Int(s) })
	try("string", func(s string) (any, error) { return o.String(s) })
	try("bool", func(s string) (any, error) { return o.Bool(s) })
	try("float", func(s string) (any, error) { return o.Float(s) })
	try("object", func(s string) (any, error) { return o.Object(s) })
	if f, err := o.Float("int"); f != 7 || err != nil {
		t.Errorf("%v, %v", f, err)
	}
}

func TestObjectData(t *testing.T) {
	o := jobOf(public("id", int64(1)), public("queue", "q"), Property{"chained", "*", list()}, public("n", nil))
	if got := o.Data(); !cmp.Equal(got, []Property{public("id", int64(1)), public("n", nil)}) || len(o.Properties) != 4 {
		t.Errorf("%v of %v", got, o.Properties)
	}
	for _, c := range []struct {
		o    *Object
		want bool
	}{{o, false}, {jobOf(), false}, {jobOf(public("chained", nil)), false}, {jobOf(public("chained", list("O:…"))), true}} {
		if c.o.chained() != c.want {
			t.Errorf("%v: not %v", c.o.Properties, c.want)
		}
	}
}

func date(text string, form any, zone string) *Object {
	return jobOf(public("at", &Object{`Carbon\Carbon`, []Property{public("date", text), public("timezone_type", form), public("timezone", zone)}}))
}

func TestObjectTime(t *testing.T) {
	const noon = "2024-07-15 12:00:00.250000"
	for _, c := range []struct {
		o    *Object
		want string
	}{
		{date(noon, int64(1), "+05:30"), "2024-07-15T12:00:00.25+05:30"},
		{date(noon, int64(1), "-03:00"), "2024-07-15T12:00:00.25-03:00"},
		{date("1880-01-01 00:00:00.000000", int64(1), "-00:01:15"), "1880-01-01T00:01:15Z"},
		{date(noon, int64(2), "Z"), "2024-07-15T12:00:00.25Z"},
		{date(noon, int64(2), "EDT"), "2024-07-15T12:00:00.25-04:00"},
		{date(noon, int64(3), "UTC"), "2024-07-15T12:00:00.25Z"},
		{date(noon, int64(3), "Europe/Berlin"), "2024-07-15T12:00:00.25+02:00"},
		{date("2024-01-15 12:00:00", int64(3), "Europe/Berlin"), "2024-01-15T12:00:00+01:00"},
	} {
		got, err := c.o.Time("at")
		if want, _ := time.Parse(time.RFC3339, c.want); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v", c.want, got, err)
		}
	}
	for want, o := range map[string]*Object{
		`the property at of App\Job is not understood, expected a date as PHP writes it`: date("noon", int64(3), "UTC"),
		`(it is "+5", of type 1)`:                                               date(noon, int64(1), "+5"),
		`(it is "IST", of type 2)`:                                              date(noon, int64(2), "IST"),
		`(it is "Local", of type 3)`:                                            date(noon, int64(3), "Local"),
		`(it is "", of type 3)`:                                                 date(noon, int64(3), ""),
		`(it is "Mars/X", of type 3)`:                                           date(noon, int64(3), "Mars/X"),
		`(it is "UTC", of type 4)`:                                              date(noon, int64(4), "UTC"),
		`the property timezone_type of Carbon\Carbon is of type string`:         date(noon, "3", "UTC"),
		`the property at of App\Job is of type int64, expected *laravel.Object`: jobOf(public("at", int64(1))),
	} {
		if at, err := o.Time("at"); err == nil || !strings.Contains(err.Error(), want) || !at.IsZero() {
			t.Errorf("%v, %v, want %s", at, err, want)
		}
	}
}

// A job of Laravel's own classes: with an enum, a collection, a Carbon and the bookkeeping of its traits.
func TestLaravelJob(t *testing.T) {
	o := harness.Must(ParseObject(resize(t)))(t)
	var names []string
	for _, p := range o.Data() {
		names = append(names, p.Scope+" "+p.Name)
	}
	if want := []string{" tries", `App\Jobs\Resize secret`, "* tags", " id", " size", " name", " at"}; !cmp.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	if o.Class != `App\Jobs\Resize` || o.chained() {
		t.Errorf("%s, chained %v", o.Class, o.chained())
	}
	if size, _ := o.Get("size"); size != (Enum{`App\Jobs\Size`, "Large"}) {
		t.Errorf("size %v", size)
	}
	tags := harness.Must(o.Object("tags"))(t)
	if items, _ := tags.Get("items"); !cmp.Equal(items, list("a", "b")) {
		t.Errorf("%v", items)
	}
	if at, err := o.Time("at"); err != nil || at.UTC() != time.Date(2024, 1, 15, 11, 0, 0, 25e7, time.UTC) {
		t.Errorf("%v, %v", at, err)
	}
}
