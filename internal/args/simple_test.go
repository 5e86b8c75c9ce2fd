package args_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/args"
)

// checkGeneral compares what DecodeArgs made of raw with the general way.
func checkGeneral(t *testing.T, raw []byte, got reflect.Value, err error) {
	t.Helper()
	plan, fault := args.PlanOf(got.Type())
	if fault != nil {
		t.Fatal(fault)
	}
	want := reflect.New(got.Type().Elem())
	var wantErr error
	if fault := plan.Read(raw, want.Elem()); fault != nil {
		wantErr = (*troupe.ArgsError)(fault)
	}
	if fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Fatalf("%q into %T: %v, want %v", raw, got.Interface(), err, wantErr)
	}
	if err == nil && !reflect.DeepEqual(got.Interface(), want.Interface()) {
		t.Fatalf("%q into %T: %+v, want %+v", raw, got.Interface(), got.Elem(), want.Elem())
	}
}

type (
	one[T any] struct {
		A T `arg:"0"`
	}
	ofThree[T any] struct { // set from the middle of the list; A is not written first
		B T `arg:"1"`
		A T `arg:"0"`
		C T `arg:"2,optional"`
	}
)

// Whatever stands for an argument is read, or refused, as in the general way.
func TestPlainArgumentsReadAsInTheGeneralWay(t *testing.T) {
	texts := []string{
		`0`, `-0`, `1`, `-1`, `127`, `128`, `-128`, `-129`, `255`, `256`, `32767`, `32768`, `-32768`, `-32769`, `65535`, `65536`,
		`2147483647`, `2147483648`, `-2147483648`, `-2147483649`, `4294967295`, `4294967296`, `01`, `-01`, `00`,
		`99999999999999999`, `999999999999999999`, `-999999999999999999`, `1000000000000000000`, `9223372036854775807`,
		`9223372036854775808`, `-9223372036854775808`, `-9223372036854775809`, `18446744073709551615`, `18446744073709551616`,
		`123456789012345678901234567890`, `1.5`, `1.0`, `1e3`, `1E+2`, `1e39`, `1e400`, `0.1`, `-`, `1.`, `1e`, `1x`, `+1`, `1 2`,
		`true`, `false`, `tru`, `truex`, `True`, `null`, `nul`, `""`, `"a"`, `"1234567"`, `"12345678"`, `"a\u0062\n"`, `"é"`,
		"\"\xff\"", "\"1234567\xff\"", "\"\x01\"", "\"a\nb\"", `"open`, `"\ud800"`, `[]`, `{}`, `[1]`, ``,
	}
	types := []any{
		one[int]{}, one[int64]{}, one[int32]{}, one[int16]{}, one[int8]{}, one[uint]{}, one[uint64]{}, one[uint32]{}, one[uint16]{},
		one[uint8]{}, one[uintptr]{}, one[float64]{}, one[float32]{}, one[bool]{}, one[string]{}, one[word]{},
		ofThree[int64]{}, ofThree[int]{}, ofThree[int8]{}, ofThree[string]{}, ofThree[bool]{}, ofThree[float32]{}, ofThree[uint16]{}, empty{},
	}
	quick := 0
	for _, v := range types {
		for _, text := range texts {
			for _, form := range []string{"[%]", " [ % ] ", "[%,%]", "[%,\n% , %]", "[1,%,1]", "[%", "[%]]", "[%,]", "[%,%,%,%]", "%"} {
				raw := []byte(strings.ReplaceAll(form, "%", text))
				into := reflect.New(reflect.TypeOf(v))
				err := troupe.DecodeArgs(raw, into.Interface())
				checkGeneral(t, raw, into, err)
				plan, _ := args.PlanOf(into.Type())
				if plan.ReadSimple(raw, reflect.New(reflect.TypeOf(v))) {
					quick++
				}
			}
		}
	}
	if quick < 500 {
		t.Errorf("only %d lists were read in the quick way", quick)
	}
}
