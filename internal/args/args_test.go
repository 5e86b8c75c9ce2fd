package args_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/test/harness"
)

type address struct {
	City string `json:"city"`
	Zip  int32  `json:"zip"`
}

// Types of arguments; Class is not needed to map them.
type (
	charge struct {
		AccountID int64  `arg:"0"`
		Cents     int64  `arg:"1"`
		Currency  string `arg:"2"`
	}
	optional struct {
		cache int    //nolint:unused // unexported fields are no arguments
		Note  string `arg:"-"`
		Name  string `arg:"0"`
		Limit int    `arg:"1,optional"`
		Force *bool  `arg:"2,optional"`
	}
	variadic struct {
		Rest []int  `arg:"*"`
		Name string `arg:"0,optional"`
	}
	mixed struct {
		Any  any            `arg:"0"`
		Map  map[string]any `arg:"1"`
		Addr address        `arg:"2"`
		Big  *big.Int       `arg:"3"`
		Num  json.Number    `arg:"4"`
		When time.Time      `arg:"5"`
		Blob []byte         `arg:"6"`
	}
	object  struct{ Addr address }
	empty   struct{}
	list    []string
	dict    map[string]int
	word    string
	numbers struct {
		I8  int8    `arg:"0"`
		U16 uint16  `arg:"1"`
		F32 float32 `arg:"2"`
		B   bool    `arg:"3"`
	}
	stamp  struct{ time.Time }
	levels struct {
		One  level   `arg:"0"`
		Rest []level `arg:"*"`
	}
	level int
)

func (l *level) MarshalText() ([]byte, error) { return []byte("level " + strconv.Itoa(int(*l))), nil }

func (l *level) UnmarshalText(text []byte) error {
	_, err := fmt.Sscanf(string(text), "level %d", (*int)(l))
	return err
}

func TestArgsRoundTrip(t *testing.T) {
	yes := true
	bigNumber, _ := new(big.Int).SetString("123456789012345678901234567890", 10)
	when := time.Date(2026, 11, 21, 3, 14, 41, 0, time.UTC)
	for _, tt := range []struct {
		name string
		v    any
		raw  string
	}{
		{"positional", charge{42, 1999, "EUR"}, `[42,1999,"EUR"]`},
		{"optional left out", optional{Name: "a"}, `["a"]`},
		{"optional zero before a set one", optional{Name: "a", Force: &yes}, `["a",0,true]`},
		{"optional set", optional{Name: "a", Limit: 3}, `["a",3]`},
		{"no rest", variadic{}, `[]`},
		{"rest only", variadic{Rest: []int{1, 2}}, `["",1,2]`},
		{"rest", variadic{Name: "n", Rest: []int{1}}, `["n",1]`},
		{"all kinds", mixed{[]any{json.Number("1.1"), nil}, map[string]any{"k": json.Number("12345678901234567890")}, address{"Köln", 50667}, bigNumber, "1000.0", when, []byte("hi")},
			`[[1.1,null],{"k":12345678901234567890},{"city":"Köln","zip":50667},123456789012345678901234567890,1000.0,"2026-11-21T03:14:41Z","aGk="]`},
		{"one object", object{address{"x<y", 1}}, `[{"Addr":{"city":"x<y","zip":1}}]`},
		{"no arguments", empty{}, `[]`},
		{"list", list{"a", "b"}, `["a","b"]`},
		{"empty list", list{}, `[]`},
		{"map", dict{"b": 2, "a": 1}, `[{"a":1,"b":2}]`},
		{"plain value", word("w\u2028"), "[\"w\u2028\"]"},
		{"small numbers", numbers{-128, 65535, 0.5, true}, `[-128,65535,0.5,true]`},
		{"own JSON", stamp{when}, `["2026-11-21T03:14:41Z"]`},
		{"numbers with their own text", levels{1, []level{2}}, `["level 1","level 2"]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			raw, err := job.EncodeArgs(tt.v)
			if err != nil || string(raw) != tt.raw {
				t.Fatalf("EncodeArgs: got %s, %v\nwant %s", raw, err, tt.raw)
			}
			into := reflect.New(reflect.TypeOf(tt.v))
			harness.OK(t, troupe.DecodeArgs(raw, into.Interface()))
			sameNumber := cmp.Comparer(func(a, b *big.Int) bool { return a.Cmp(b) == 0 })
			unexported := cmp.AllowUnexported(optional{})
			if diff := cmp.Diff(tt.v, into.Elem().Interface(), sameNumber, unexported); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeArgs(t *testing.T) {
	for _, tt := range []struct {
		name, raw string
		want      any
	}{
		{"spaces", " [ 1 ,\n2 , \"x\" ] ", charge{1, 2, "x"}},
		{"escapes", `[1,2,"\ud83d\ude00\n\ud800"]`, charge{1, 2, "😀\n\ufffd"}},
		{"bytes that are not UTF-8", "[1,2,\"a\xff\xfe\"]", charge{1, 2, "a\ufffd\ufffd"}},
		{"null for optional", `["a",null,null]`, optional{Name: "a"}},
		{"null for what can be nil", `[null,null,{},null,1,"2026-11-21T03:14:41Z",null]`, mixed{Num: "1", When: time.Date(2026, 11, 21, 3, 14, 41, 0, time.UTC)}},
		{"args missing", ``, empty{}},
		{"args null", `null`, empty{}},
		{"args missing, all optional", ``, variadic{}},
		{"unknown keys", `[{"Addr":{"city":"c","new":1},"x":[]}]`, object{address{City: "c"}}},
		{"minus zero", `[-0,0,""]`, charge{}},
		{"list of strings", `["a","\u0062"]`, list{"a", "b"}},
		{"any list", `[1.0,{"a":[2]},"x",null,true]`, []any{json.Number("1.0"), map[string]any{"a": []any{json.Number("2")}}, "x", nil, true}},
		{"raw list", `[1.0, {"a" :1}]`, []json.RawMessage{json.RawMessage(`1.0`), json.RawMessage(`{"a" :1}`)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			into := reflect.New(reflect.TypeOf(tt.want))
			harness.OK(t, troupe.DecodeArgs(json.RawMessage(tt.raw), into.Interface()))
			if diff := cmp.Diff(tt.want, into.Elem().Interface(), cmp.AllowUnexported(optional{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeArgsReplacesWhatWasThere(t *testing.T) {
	into := optional{Name: "old", Limit: 5, Note: "n"}
	if err := troupe.DecodeArgs(json.RawMessage(`["new"]`), &into); err != nil || into != (optional{Name: "new"}) {
		t.Errorf("got %+v, %v", into, err)
	}
	var pointer *charge
	if err := troupe.DecodeArgs(json.RawMessage(`[1,2,"x"]`), &pointer); err != nil || *pointer != (charge{1, 2, "x"}) {
		t.Errorf("got %+v, %v", pointer, err)
	}
}

func TestDecodeArgsRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, raw string
		into      any
		want      string
	}{
		{"too few", `[1,2]`, &charge{}, "args: expected 3 arguments, got 2"},
		{"too many", `[1,2,"x",4]`, &charge{}, "args: expected 3 arguments, got 4"},
		{"too few with optional", `[]`, &optional{}, "args: expected 1 to 3 arguments, got 0"},
		{"some for none", `[{}]`, &empty{}, "args: expected 0 arguments, got 1"},
		{"two for one object", `[{},{}]`, &object{}, "args: expected 1 argument, got 2"},
		{"missing for one object", ``, &object{}, "args: expected 1 argument, got 0"},
		{"not an array", `{"a":1}`, &charge{}, "args: expected an array, got an object"},
		{"string for an integer", `["secret",2,"x"]`, &charge{}, "args[0] (AccountID): expected int64, got a string"},
		{"number for a string", `[1,2,7777]`, &charge{}, "args[2] (Currency): expected string, got a number"},
		{"fraction for an integer", `[1.0,2,"x"]`, &charge{}, "args[0] (AccountID): expected int64, got a number that does not fit"},
		{"exponent for an integer", `[1e2,2,"x"]`, &charge{}, "args[0] (AccountID): expected int64, got a number that does not fit"},
		{"integer overflow", `[9223372036854775808,2,"x"]`, &charge{}, "args[0] (AccountID): expected int64, got a number that does not fit"},
		{"null for an integer", `[null,2,"x"]`, &charge{}, "args[0] (AccountID): expected int64, got null"},
		{"null for a struct", `[null]`, &object{}, "args[0]: expected args_test.object, got null"},
		{"small overflow", `[128,1,1,true]`, &numbers{}, "args[0] (I8): expected int8, got a number that does not fit"},
		{"negative for unsigned", `[1,-1,1,true]`, &numbers{}, "args[1] (U16): expected uint16, got a number that does not fit"},
		{"float overflow", `[1,1,1e39,true]`, &numbers{}, "args[2] (F32): expected float32, got a number that does not fit"},
		{"number for a boolean", `[1,1,1,0]`, &numbers{}, "args[3] (B): expected bool, got a number"},
		{"in the rest", `["n",1,"2"]`, &variadic{}, "args[2] (Rest): expected int, got a string"},
		{"in a list", `["a",["b"]]`, &list{}, "args[1]: expected string, got an array"},
		{"inside an object", `[{"Addr":{"zip":"secret"}}]`, &object{}, "args[0] (Addr.zip): expected int32, got a string"},
		{"overflow inside an object", `[{"Addr":{"zip":2147483648}}]`, &object{}, "args[0] (Addr.zip): expected int32, got a number that does not fit"},
		{"object for a map of integers", `[{"a":[]}]`, &dict{}, "args[0]: expected int, got an array"},
		{"boolean inside an object", `[{"Addr":{"city":true}}]`, &object{}, "args[0] (Addr.city): expected string, got a boolean"},
		{"refused by its type", `["secret"]`, &stamp{}, "args[0]: expected args_test.stamp, got a string that does not fit"},
		{"invalid JSON", `[1,`, &charge{}, "args: expected an array, got invalid JSON at byte 3: unexpected end"},
		{"comma at the end", `[1,]`, &charge{}, "args: expected an array, got invalid JSON at byte 3: invalid value"},
		{"no comma", `[1 2]`, &charge{}, "args: expected an array, got invalid JSON at byte 3: expected , or ] after a value"},
		{"never closed", `[1`, &charge{}, "args: expected an array, got invalid JSON at byte 2: expected , or ] after a value"},
		{"text after", `[1] 2`, &charge{}, "args: expected an array, got invalid JSON at byte 4: text after the array"},
		{"invalid and no array", `{"a"`, &charge{}, "args: expected an array, got invalid JSON at byte 4: unexpected end"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := troupe.DecodeArgs(json.RawMessage(tt.raw), tt.into)
			if err == nil || err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
			if _, ok := errors.AsType[*troupe.ArgsError](err); !ok {
				t.Errorf("%T is not an ArgsError", err)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Error("the error shows an argument")
			}
		})
	}
	var parseError *time.ParseError
	if err := troupe.DecodeArgs(json.RawMessage(`["x"]`), &stamp{}); !errors.As(err, &parseError) {
		t.Errorf("%v does not lead to the type's own error", err)
	}
}

func TestArgsTypesThatAreMistakes(t *testing.T) {
	type (
		gap struct {
			A int `arg:"0"`
			B int `arg:"2"`
		}
		twice struct {
			A int `arg:"0"`
			B int `arg:"0"`
		}
		untagged struct {
			A int `arg:"0"`
			B int
		}
		hidden struct {
			a int `arg:"0"` //nolint:unused // the mistake under test
		}
		order struct {
			A int `arg:"0,optional"`
			B int `arg:"1"`
		}
		rests struct {
			A []int `arg:"*"`
			B []int `arg:"*"`
		}
		noSlice struct {
			A int `arg:"*"`
		}
		noNumber struct {
			A int `arg:"first"`
		}
		badOption struct {
			A int `arg:"0,omitempty"`
		}
		embeds struct {
			charge
			A int `arg:"0"`
		}
	)
	for _, tt := range []struct {
		v    any
		want string
	}{
		{gap{}, `args_test.gap: expected positions without gaps, none is arg:"1"`},
		{twice{}, `args_test.twice.B: tag arg:"0": position taken by field A`},
		{untagged{}, `args_test.untagged.B: expected an arg tag as on the other fields, or arg:"-"`},
		{hidden{}, `args_test.hidden.a: tag arg:"0": expected an exported field`},
		{order{}, `args_test.order.B: expected optional after an optional position`},
		{rests{}, `args_test.rests.B: tag arg:"*": expected only one "*"`},
		{noSlice{}, `args_test.noSlice.A: tag arg:"*": expected a slice for the rest of the arguments`},
		{noNumber{}, `args_test.noNumber.A: tag arg:"first": expected a position from 0, "N,optional", "*" or "-"`},
		{badOption{}, `args_test.badOption.A: tag arg:"0,omitempty": expected a position from 0, "N,optional", "*" or "-"`},
		{embeds{}, `args_test.embeds.charge: expected an arg tag as on the other fields, or arg:"-"`},
		{func() {}, `func(): expected a struct, slice, map or plain value for arguments, got a Go func`},
		{[2]int{}, `[2]int: expected a struct, slice, map or plain value for arguments, got a Go array`},
	} {
		_, err := job.EncodeArgs(tt.v)
		if err == nil || err.Error() != "encode args: "+tt.want {
			t.Errorf("EncodeArgs: got  %v\nwant %s", err, tt.want)
		}
		err = troupe.DecodeArgs(nil, reflect.New(reflect.TypeOf(tt.v)).Interface())
		if err == nil || err.Error() != "decode args: "+tt.want {
			t.Errorf("DecodeArgs: got  %v\nwant %s", err, tt.want)
		}
	}
}

func TestArgsCallsThatAreMistakes(t *testing.T) {
	for _, v := range []any{nil, (*charge)(nil)} {
		if _, err := job.EncodeArgs(v); err == nil || err.Error() != "encode args: nil value" {
			t.Errorf("encode.Args(%v): %v", v, err)
		}
	}
	for _, into := range []any{nil, charge{}, (*charge)(nil)} {
		if err := troupe.DecodeArgs(nil, into); err == nil || !strings.HasPrefix(err.Error(), "decode args: expected a pointer") {
			t.Errorf("DecodeArgs into %T: %v", into, err)
		}
	}
	for v, want := range map[any]string{
		struct {
			A string `arg:"0"`
		}{"\xff"}: "encode args: encode JSON [0] (A): string is not valid UTF-8",
		word("\xff"): "encode args: encode JSON [0]: string is not valid UTF-8",
	} {
		if _, err := job.EncodeArgs(v); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	if _, err := job.EncodeArgs([]any{1, "\xff"}); err == nil || err.Error() != "encode args: encode JSON [1]: string is not valid UTF-8" {
		t.Errorf("got %v", err)
	}
	// args and the job around them take two of the hundred levels.
	if _, err := job.EncodeArgs([]any{nest(98)}); err != nil {
		t.Error(err)
	}
	if _, err := job.EncodeArgs([]any{nest(99)}); err == nil {
		t.Error("an argument of 99 levels was encoded")
	}
}

func nest(levels int) any {
	var v any = []any{}
	for range levels - 1 {
		v = []any{v}
	}
	return v
}
