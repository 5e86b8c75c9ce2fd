package args_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
)

// FuzzDecodeArgs: never panics, fails with ArgsErrors only, reads the same in
// the quick way as in the general one, and what fits survives an encode and a
// second decode.
func FuzzDecodeArgs(f *testing.F) {
	for _, raw := range []string{
		``, `null`, `[]`, `{}`, `[1,2,"EUR"]`, `["a",3,true]`, `["a",null]`, `[[],{},{"zip":1},1,1e3,"2026-11-21T03:14:41Z","aGk="]`,
		`[{"Addr":{"city":"x"}}]`, `["\ud800"]`, "[\"\xff\"]", `[1,`, `[-128,65535,1e38,false]`, `[{"a":1}]`, `["n",1,2,3]`,
	} {
		f.Add([]byte(raw))
	}
	types := []any{charge{}, optional{}, variadic{}, mixed{}, object{}, empty{}, list{}, dict{}, word(""), numbers{}, stamp{}, []any{}}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, v := range types {
			first := reflect.New(reflect.TypeOf(v))
			err := troupe.DecodeArgs(raw, first.Interface())
			checkGeneral(t, raw, first, err)
			if err != nil {
				if fault, ok := errors.AsType[*troupe.ArgsError](err); !ok || fault.Expected == "" || fault.Got == "" || !utf8.ValidString(err.Error()) {
					t.Fatalf("%q into %T: %T %v", raw, v, err, err)
				}
				continue
			}
			text, err := job.EncodeArgs(first.Interface())
			if err != nil && strings.Contains(err.Error(), "too large") { // a number that is no double, in an any
				continue
			}
			if err != nil {
				t.Fatalf("%q into %T: %v", raw, v, err)
			}
			second := reflect.New(reflect.TypeOf(v))
			if err := troupe.DecodeArgs(text, second.Interface()); err != nil {
				t.Fatalf("%q into %T, again from %q: %v", raw, v, text, err)
			}
			if again, err := job.EncodeArgs(second.Interface()); err != nil || !bytes.Equal(again, text) {
				t.Fatalf("%q into %T: %q becomes %q, %v", raw, v, text, again, err)
			}
		}
	})
}
