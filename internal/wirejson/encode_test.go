package wirejson_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
)

type upper string

func (u upper) MarshalText() ([]byte, error) { return []byte(strings.ToUpper(string(u))), nil }

type byPointer struct{ n int }

func (b *byPointer) MarshalJSON() ([]byte, error) { return []byte(` { "n" : "\u003c" } `), nil }

type broken struct{}

func (broken) MarshalJSON() ([]byte, error) { return nil, errors.New("cannot") }

type invalid struct{}

func (invalid) MarshalJSON() ([]byte, error) { return []byte(`{"a":`), nil }

type brokenText struct{}

func (brokenText) MarshalText() ([]byte, error) { return nil, errors.New("cannot") }

type loop struct{ Next *loop }

type endless *endless

func TestEncodeJSON(t *testing.T) {
	type named struct {
		B     int     `json:"b"`
		A     string  `json:"a,omitempty"`
		Skip  string  `json:"-"`
		Dash  int     `json:"-,"` //nolint:staticcheck // a name that encoding/json accepts
		Zero  int     `json:",omitzero"`
		Q     int64   `json:"q,string"`
		QS    string  `json:"qs,string,omitempty"`
		Price float32 `json:"price"`
		inner int     //nolint:unused // must not be written
	}
	number := big.NewInt(0)
	number.SetString("123456789012345678901234567890", 10)
	when := time.Date(2026, 11, 21, 3, 14, 41, 5e8, time.UTC)
	five := 5
	for _, tt := range []struct {
		name string
		v    any
		want string
	}{
		{"nil", nil, `null`},
		{"booleans", []bool{true, false}, `[true,false]`},
		{"Ruby's escapes", "<&>/\u2028\u2029é😀\x7f\"\\\b\t\n\f\r\x00\x1f", `"<&>/` + "\u2028\u2029é😀\x7f" + `\"\\\b\t\n\f\r\u0000\u001f"`},
		{"integers", []any{int8(-8), uint8(8), int32(1), uint64(math.MaxUint64), math.MinInt64}, `[-8,8,1,18446744073709551615,-9223372036854775808]`},
		{"whole floats", []float64{100, 0, -1, 1e14, 999999999999999}, `[100.0,0.0,-1.0,100000000000000.0,999999999999999.0]`},
		{"fractions", []float64{0.1, 3.5, 1795224881.1534805, 0.0001, 4200441064345871.5}, `[0.1,3.5,1795224881.1534805,0.0001,4200441064345871.5]`},
		{"floats that Ruby writes with exponents", []float64{1e15, 1e16, 1e20, 1e100, 1.5e-5, 123456789012345680, 5e-324}, `[1.0e+15,1.0e+16,1.0e+20,1.0e+100,1.5e-05,1.2345678901234568e+17,5.0e-324]`},
		{"minus zero", math.Copysign(0, -1), `-0.0`},
		{"float32", float32(0.1), `0.1`},
		{"numbers", []any{json.Number("1e3"), json.Number("1.10"), json.Number("-0"), json.Number("")}, `[1000.0,1.1,0,0]`},
		{"float32 around the exponents", []float32{0.0001, 0.00009, 1e15, 1e14, 16777216}, `[0.0001,9.0e-05,1.0e+15,100000000000000.0,16777216.0]`},
		{"maps by key", map[string]any{"b": 1, "a": map[upper]int{"y": 2, "x": 1}}, `{"a":{"x":1,"y":2},"b":1}`},
		{"nil map, slice, pointer", []any{map[string]int(nil), []int(nil), (*int)(nil), json.RawMessage(nil), (*byPointer)(nil)}, `[null,null,null,null,null]`},
		{"pointer", &five, `5`},
		{"pointer to interface", func() *any { var v any = &five; return &v }(), `5`},
		{"array", [2]int{1, 2}, `[1,2]`},
		{"bytes", []byte("hi?>"), `"aGk/Pg=="`},
		{"text marshaler", []any{upper("x"), netip.MustParseAddr("10.0.0.1")}, `["X","10.0.0.1"]`},
		{"raw", json.RawMessage(` { "a" : [ 1e3 , "\u003c\u2028\/" ] } `), `{"a":[1000.0,"<` + "\u2028" + `/"]}`},
		{"raw, keys twice", json.RawMessage(` {"b" : {"x":1,"x":[2]} , "a":2, "\u0062":3, "c":{}, "a":{"":5} } `), `{"b":3,"a":{"":5},"c":{}}`},
		{"raw, many keys", json.RawMessage(manyKeys(100, 2)), manyKeys(100, 1)},
		{"pointer receiver, not addressable", map[string]byPointer{"k": {1}}, `{"k":{"n":"<"}}`},
		{"big integer", []any{number, *number}, `[123456789012345678901234567890,123456789012345678901234567890]`},
		{"time", when, `"2026-11-21T03:14:41.5Z"`},
		{"duration", time.Second, `1000000000`},
		{"struct", named{B: 1, Q: 7, Price: 2}, `{"b":1,"-":0,"q":"7","price":2.0}`},
		{"struct, all set", &named{B: 1, A: "x", Skip: "no", Dash: 2, Zero: 3, QS: "q", Price: 0.5}, `{"b":1,"a":"x","-":2,"Zero":3,"q":"0","qs":"\"q\"","price":0.5}`},
		{"empty struct", struct{}{}, `{}`},
		{"98 levels", nest(98), strings.Repeat("[", 98) + strings.Repeat("]", 98)},
		{"100 levels", nest(100), strings.Repeat("[", 100) + strings.Repeat("]", 100)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := job.EncodeJSON(tt.v)
			if err != nil || string(got) != tt.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, tt.want)
			}
			if !json.Valid(got) {
				t.Errorf("%s is not valid JSON", got)
			}
		})
	}
}

// manyKeys is an object with n keys, each so many times; the last value of key k
// is k.
func manyKeys(n, times int) string {
	var members []string
	for round := range times {
		for k := range n {
			value := k
			if round < times-1 {
				value = -1
			}
			members = append(members, fmt.Sprintf(`"k%d":%d`, k, value))
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

func nest(levels int) any {
	var v any = []any{}
	for range levels - 1 {
		v = []any{v}
	}
	return v
}

func TestEncodeJSONRefuses(t *testing.T) {
	ring := &loop{}
	ring.Next = ring
	var self endless
	self = &self
	type item struct{ Price float64 }
	for _, tt := range []struct {
		name string
		v    any
		want string
	}{
		{"NaN", math.NaN(), "encode JSON: NaN is not a JSON number"},
		{"infinity with its path", map[string]any{"k": []any{1, item{math.Inf(1)}}}, `encode JSON ["k"][1].Price: +Inf is not a JSON number`},
		{"invalid UTF-8", "\xff", "encode JSON: string is not valid UTF-8"},
		{"invalid UTF-8 in a key", map[string]int{"\xff": 1}, `encode JSON key "\xff": string is not valid UTF-8`},
		{"integer keys", map[int]int{1: 1}, "encode JSON: map keys must be strings, not int"},
		{"function", []any{func() {}}, "encode JSON [0]: no JSON for a Go func()"},
		{"channel", make(chan int), "encode JSON: no JSON for a Go chan int"},
		{"complex", 1i, "encode JSON: no JSON for a Go complex128"},
		{"101 levels", nest(101), "encode JSON " + strings.Repeat("[0]", 100) + ": nested deeper than 100 levels"},
		{"endless value", ring, "encode JSON " + strings.Repeat(".Next", 100) + ": nested deeper than 100 levels"},
		{"endless pointer", self, "encode JSON: nested deeper than 100 levels"},
		{"bad number", json.Number("0x1"), `encode JSON: json.Number "0x1" is not a number`},
		{"raw beyond doubles", json.RawMessage(` [ "é", -1e999 ] `), "encode JSON: number -1e999 at byte 9 is too large, expected at most 1.7976931348623157e+308, the largest double"},
		{"number beyond doubles", []any{json.Number("1.7976931348623159e308")}, `encode JSON [0]: json.Number "1.7976931348623159e308" is too large, expected at most 1.7976931348623157e+308, the largest double`},
		{"bad raw", json.RawMessage(`{"a" 1}`), "encode JSON: invalid JSON at byte 5: expected : after a key"},
		{"empty raw", json.RawMessage{}, "encode JSON: invalid JSON at byte 0: empty"},
		{"raw invalid UTF-8", json.RawMessage("\"\xff\""), "encode JSON: string is not valid UTF-8"},
		{"raw too deep in place", []any{json.RawMessage(strings.Repeat("[", 100) + strings.Repeat("]", 100))}, "encode JSON [0]: invalid JSON at byte 99: nested deeper than 100 levels"},
		{"marshaler's error", []any{broken{}}, "encode JSON [0]: MarshalJSON of wirejson_test.broken: cannot"},
		{"marshaler's nonsense", invalid{}, "encode JSON: invalid JSON at byte 5: unexpected end"},
		{"text marshaler's error", brokenText{}, "encode JSON: MarshalText of wirejson_test.brokenText: cannot"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := job.EncodeJSON(tt.v)
			if err == nil || err.Error() != tt.want {
				t.Errorf("got %s, error %v\nwant error %s", got, err, tt.want)
			}
			if _, ok := errors.AsType[*troupe.EncodeError](err); !ok {
				t.Errorf("%T is not an EncodeError", err)
			}
		})
	}
}

type (
	base struct {
		ID    int
		Label string
		Both  int
	}
	Other struct {
		Both int
		Deep int `json:"deep"`
	}
	Left  struct{ Same, L int }
	Right struct{ Same, R int }
	Node  struct {
		*Node
		Name string
	}
	omit struct {
		E []int      `json:",omitempty"`
		M any        `json:",omitempty"`
		P *int       `json:",omitempty"`
		S struct{}   `json:",omitempty"` //nolint:modernize // an option that has no effect
		T time.Time  `json:",omitzero"`
		U *time.Time `json:",omitzero"`
		Z any        `json:",omitzero"`
		B big.Int    `json:",omitzero"`
	}
)

// Structs must look as encoding/json makes them: the decoder is encoding/json.
func TestStructsAgreeWithEncodingJSON(t *testing.T) {
	type tagged struct {
		base
		*Other
		Label  string `json:"ID"`
		Bad    int    `json:"a\"b"` //nolint:staticcheck // a name that encoding/json refuses
		Umlaut int    `json:"größe"`
		Named  Other  `json:"named"`
	}
	type pair struct {
		A Other
		Other
		X int `json:"deep"`
	}
	zero := time.Time{}
	for _, v := range []any{
		base{1, "x", 2}, &Other{1, 2}, tagged{}, tagged{Other: &Other{Both: 3}, Label: "l"}, &pair{X: 1},
		Node{Name: "a", Node: &Node{Name: "b"}}, omit{}, omit{M: 0, U: &zero, Z: zero, T: time.Unix(0, 0).UTC()},
		struct {
			Left
			Right // both have Same, so neither counts
		}{},
		struct {
			Other `json:"other"`
			I     any
			N     json.Number
		}{N: "7"},
		struct {
			P *bool  `json:"p,string"`
			S string `json:"s,string"`
			L []int  `json:"l,string"` //nolint:staticcheck // an option that has no effect
		}{S: `a"b`},
	} {
		want, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		got, err := job.EncodeJSON(v)
		if err != nil || string(got) != string(want) {
			t.Errorf("%T:\ngot  %s, %v\nwant %s", v, got, err, want)
		}
	}
}
