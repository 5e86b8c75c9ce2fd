package troupe

import (
	"errors"
	"reflect"
	"testing"

	"github.com/troupehq/troupe/internal/args"
	"github.com/troupehq/troupe/internal/test/harness"
)

// Releases of a class, as the guide tells of them: by position, and as one object.
type (
	v1 struct {
		ID    int64  `arg:"0"`
		Month string `arg:"1"`
	}
	v2 struct {
		ID     int64  `arg:"0"`
		Month  string `arg:"1"`
		Format string `arg:"2,optional"`
	}
	object1 struct{ ID int64 }
	object2 struct {
		ID     int64
		Format string `json:",omitempty"`
	}
)

func (v1) Class() string      { return "Report" }
func (v2) Class() string      { return "Report" }
func (object1) Class() string { return "Object" }
func (object2) Class() string { return "Object" }

// arrives decodes into another release's type what one has pushed.
func arrives(t *testing.T, pushed Args, into any) error {
	t.Helper()
	text, fault := harness.Must(args.PlanOf(reflect.TypeOf(pushed)))(t).Encode(reflect.ValueOf(pushed))
	if fault != nil {
		t.Fatal(fault)
	}
	return DecodeArgs(text, into)
}

func TestArgumentsThatChange(t *testing.T) {
	var old v1
	var new2 v2
	// one more: a new daemon reads what the old release has pushed
	if err := arrives(t, v1{1, "may"}, &new2); err != nil || new2 != (v2{1, "may", ""}) {
		t.Errorf("%+v, %v", new2, err)
	}
	// the old daemon reads what the new release pushes as long as the field is zero, and fails it otherwise
	if err := arrives(t, v2{1, "may", ""}, &old); err != nil || old != (v1{1, "may"}) {
		t.Errorf("%+v, %v", old, err)
	}
	err := arrives(t, v2{1, "may", "pdf"}, &old)
	if wrong, ok := errors.AsType[*ArgsError](err); !ok || wrong.Expected != "2 arguments" || wrong.Got != "3" {
		t.Errorf("%v", err)
	}
	// one fewer: optional first
	type fewer struct {
		ID    int64  `arg:"0"`
		Month string `arg:"1,optional"`
	}
	var f fewer
	harness.OK(t, arrives(t, v1{1, "may"}, &f))
	harness.OK(t, DecodeArgs([]byte(`[1]`), &f))
	type gone struct {
		ID int64 `arg:"0"`
	}
	var g gone
	if _, ok := errors.AsType[*ArgsError](arrives(t, v1{1, "may"}, &g)); !ok {
		t.Error("an argument that nobody reads any more is read")
	}
	// fields of an object come and go
	var o1 object1
	var o2 object2
	harness.OK(t, arrives(t, object2{1, "pdf"}, &o1))
	harness.OK(t, arrives(t, object1{1}, &o2))
	if o1.ID != 1 || o2.ID != 1 {
		t.Errorf("%+v, %+v", o1, o2)
	}
}
