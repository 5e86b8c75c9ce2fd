package laravel

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/troupehq/troupe/internal/test/harness"
)

// with returns the text of an object whose property x has the value.
func with(value string) string { return `O:1:"J":1:{s:1:"x";` + value + `}` }

func list(values ...any) *Array {
	a := &Array{Keys: make([]any, len(values)), Values: append([]any{}, values...)}
	for i := range values {
		a.Keys[i] = int64(i)
	}
	return a
}

func TestParseObjectValues(t *testing.T) {
	for text, want := range map[string]any{
		`N;`:                             nil,
		`b:0;`:                           false,
		`b:1;`:                           true,
		`i:0;`:                           int64(0),
		`i:-9223372036854775808;`:        int64(math.MinInt64),
		`i:9223372036854775807;`:         int64(math.MaxInt64),
		`d:1.5;`:                         1.5,
		`d:-0;`:                          math.Copysign(0, -1),
		`d:1;`:                           1.0,
		`d:1.0E+25;`:                     1e25,
		`d:1.0E-7;`:                      1e-7,
		`d:0.10000000000000001;`:         0.1, // PHP before 7.1
		`d:1.0E+999;`:                    math.Inf(1),
		`d:INF;`:                         math.Inf(1),
		`d:-INF;`:                        math.Inf(-1),
		`d:NAN;`:                         math.NaN(),
		`s:0:"";`:                        "",
		`s:2:"é";`:                       "é",
		`s:11:"App\notify\";`:            `App\notify\`,
		`s:4:"";}"";`:                    `";}"`,
		"s:3:\"\x00\xff\n\";":            "\x00\xff\n",
		`a:0:{}`:                         list(),
		`a:2:{i:0;N;i:1;s:1:"b";}`:       list(nil, "b"),
		`a:2:{s:1:"k";i:1;i:-7;N;}`:      &Array{Keys: []any{"k", int64(-7)}, Values: []any{int64(1), nil}},
		`a:1:{i:0;a:1:{i:0;b:1;}}`:       list(list(true)),
		`O:3:"A\B":0:{}`:                 &Object{Class: `A\B`, Properties: []Property{}},
		`E:13:"App\Suit:Aces";`:          Enum{`App\Suit`, "Aces"},
		`C:3:"Old":5:{a:"};}`:            Opaque{"Old", `a:"};`},
		`O:1:"L":1:{i:0;s:1:"a";}`:       &Object{Class: "L", Properties: []Property{{"0", "", "a"}}},
		"O:1:\"A\":1:{s:2:\"\x00a\";N;}": &Object{Class: "A", Properties: []Property{{"\x00a", "", nil}}},
		"O:1:\"A\":3:{s:1:\"a\";i:1;s:4:\"\x00*\x00a\";i:2;s:6:\"\x00A\\B\x00a\";i:3;}": &Object{Class: "A", Properties: []Property{
			{"a", "", int64(1)}, {"a", "*", int64(2)}, {"a", `A\B`, int64(3)},
		}},
	} {
		o, err := ParseObject(with(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, ok := o.Get("x")
		if diff := cmp.Diff(want, got, cmpopts.EquateNaNs()); diff != "" || !ok || o.Class != "J" {
			t.Errorf("%s: %s", text, diff)
		}
		if f, is := got.(float64); is && math.Signbit(f) != math.Signbit(want.(float64)) {
			t.Errorf("%s: the sign of %v", text, f)
		}
	}
}

// Values have numbers from 1: the object, then its values, but not keys and R: itself.
func TestParseObjectReferences(t *testing.T) {
	o, err := ParseObject(`O:1:"J":8:{s:4:"self";r:1;s:5:"inner";O:1:"I":1:{i:0;R:1;}s:4:"list";a:2:{i:0;i:7;i:1;R:4;}s:4:"same";R:4;s:5:"seven";R:5;s:5:"again";r:3;s:4:"suit";E:3:"S:A";s:5:"other";r:7;}`)
	harness.OK(t, err)
	get := func(name string) any {
		v, ok := o.Get(name)
		if !ok {
			t.Errorf("no %s", name)
		}
		return v
	}
	inner := get("inner").(*Object)
	if get("self") != o || inner.Properties[0].Value != o || get("again") != inner {
		t.Error("objects that are the same in PHP are not one pointer")
	}
	l := get("list").(*Array)
	if l.Values[1] != l || get("same") != l || get("seven") != int64(7) {
		t.Error("what is shared in PHP is not one pointer, or not copied")
	}
	if want := (Enum{"S", "A"}); get("suit") != want || get("other") != want {
		t.Errorf("%v and %v, want both %v", get("suit"), get("other"), want)
	}
}

// Each error names the offset, what is there, and what was expected.
func TestParseObjectErrors(t *testing.T) {
	const start = 19 // of the value in with
	for text, want := range map[string]string{
		``:                                       `at byte 19 is "}", expected a value`,
		`x:1;`:                                   `at byte 19 is "x", expected a value`,
		`N:`:                                     `at byte 19 is "N", expected a value`,
		`S:1:"a";`:                               `at byte 19 is "S", expected a value`,
		`b:2;`:                                   `at byte 21 is "2", expected 0 or 1`,
		`b:;`:                                    `at byte 21 is ";", expected a 64-bit integer`,
		`i:9223372036854775808;`:                 `at byte 21 is "9", expected a 64-bit integer`,
		`i:1`:                                    `at byte 23 is the end, expected ;`,
		`d:1.5.5;`:                               `at byte 21 is "1", expected a float`,
		`d:0x1p4;`:                               `at byte 21 is "0", expected a float`,
		`d:Infinity;`:                            `at byte 21 is "I", expected a float`,
		`d:1`:                                    `at byte 23 is the end, expected ;`,
		`s:5:"a";`:                               `at byte 21 is the size 5, expected at most 2, for the bytes that are left`,
		`s:-1:"a";`:                              `at byte 21 is the size -1, expected at most 2`,
		`s:1:a";`:                                `at byte 23 is "a", expected "`,
		`s:1:"ab";`:                              `at byte 25 is "b", expected ";`,
		`s:1:"a"`:                                `at byte 25 is "\"", expected ";`,
		`s:1:"é";`:                               `at byte 25 is "\xa9", expected ";`,
		`a:1:{i:0;}`:                             `at byte 28 is "}", expected a value`,
		`a:1:{N;N;N;}`:                           `at byte 24 is "N", expected a key, i: or s:`,
		`a:1:i:0;N;}`:                            `at byte 23 is "i", expected {`,
		`a:0:{i:0;N;}`:                           `at byte 24 is "i", expected }`,
		`a:2000000000:{`:                         `at byte 21 is the size 2000000000, expected at most 0`,
		`a:-1:{}`:                                `at byte 21 is the size -1, expected at most 0`,
		`O:9:"A":0:{}`:                           `at byte 21 is the size 9, expected at most 6`,
		`O:1:"A";0:{}`:                           `at byte 25 is "\"", expected ":`,
		`O:1:"A":1:{d:1;N;}`:                     `at byte 30 is "d", expected a key`,
		`E:1:"A";`:                               `at byte 21 is "1", expected an enum, a colon and its case`,
		`C:1:"A":9:{a}`:                          `at byte 27 is the size 9, expected at most 2`,
		`C:1:"A":1:{ab}`:                         `at byte 31 is "b", expected }`,
		`r:0;`:                                   `at byte 21 is value 0, expected 1 to 1, values that are known`,
		`r:2;`:                                   `at byte 21 is value 2, expected 1 to 1`,
		`R:-1;`:                                  `at byte 21 is value -1, expected 1 to 1`,
		`a:2:{i:0;i:1;i:1;r:2;}`:                 `at byte 38 is value 2, expected that of an object`,
		`a:3:{i:0;C:1:"A":0:{}i:1;r:3;i:2;R:4;}`: `at byte 54 is value 4, expected 1 to 3`,
		strings.Repeat("a:1:{i:0;", maxDepth-1) + `O:1:"A":0:{}` + strings.Repeat("}", maxDepth-1): fmt.Sprintf(
			`at byte %d is one more level, expected objects and arrays at most 4096 deep`, start+9*(maxDepth-1)+len(`O:1:"A":`)),
	} {
		_, err := ParseObject(with(text))
		if err == nil || !strings.HasPrefix(err.Error(), "laravel: reading a PHP object: "+want) {
			t.Errorf("%.60s: %v, want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{
		`s:1:"a";`:         `laravel: not a PHP object, expected O: at its beginning`,
		``:                 `laravel: not a PHP object, expected O: at its beginning`,
		`O:`:               `laravel: reading a PHP object: at byte 2 is the end, expected :`,
		with("N;") + " ":   `laravel: reading a PHP object: at byte 22 is " ", expected the end`,
		`O:1:"J":0:{`:      `laravel: reading a PHP object: at byte 11 is the end, expected }`,
		`O:1:"J":1:{s:1:"`: `laravel: reading a PHP object: at byte 13 is the size 1, expected at most 0, for the bytes that are left`,
	} {
		if _, err := ParseObject(text); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// Every text that is cut off is an error.
func TestParseObjectCut(t *testing.T) {
	text := with("a:4:{i:0;d:1.5;i:1;E:3:\"S:A\";i:2;C:1:\"A\":1:{a}s:1:\"k\";r:1;}")
	harness.Must(ParseObject(text))(t)
	for n := range text {
		if o, err := ParseObject(text[:n]); err == nil || o != nil {
			t.Errorf("%s: read", text[:n])
		}
	}
}

func TestParseObjectDepth(t *testing.T) {
	o := harness.Must(ParseObject(with(strings.Repeat("a:1:{i:0;", maxDepth-1) + "N;" + strings.Repeat("}", maxDepth-1))))(t)
	v, depth := o.Properties[0].Value, 1
	for ; v != nil; depth++ {
		v = v.(*Array).Values[0]
	}
	harness.Equal(t, "deep", depth, maxDepth)
}
