package troupe

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"unicode/utf8"
)

// A handler's args are those of the payload at the time, edited ones too, and
// what the quick way gives up on leaves no trace.
func TestArgumentsOfAHandlerAfterAnEdit(t *testing.T) {
	var got threeWords
	run := adapt(func(_ context.Context, job *Job[threeWords]) error {
		got = threeWords(job.Args)
		return nil
	})
	p := mustParse(t, `{"class":"X","args":["a","b","c"]}`)
	for _, args := range []string{`["a","b","c"]`, `["d","e"]`, `["f","\u0067"]`, " [ \"h\" , \"\xff\" ] "} {
		p.Set("args", json.RawMessage(args))
		var want threeWords
		if err := DecodeArgs(json.RawMessage(args), &want); err != nil {
			t.Fatal(err)
		}
		if err := run.Perform(t.Context(), p); err != nil || got != want || !utf8.ValidString(got.B) {
			t.Errorf("%q: %+v, %v, want %+v", args, got, err, want)
		}
	}
	for _, args := range []string{`["a","b",7]`, `["a"]`, `["a","b","c"`, `["a","b"]x`} {
		p.Set("args", json.RawMessage(args))
		if _, ok := errors.AsType[*ArgsError](run.Perform(t.Context(), p)); !ok {
			t.Errorf("%s: no ArgsError", args)
		}
	}
}

type threeWords struct { // set from the middle of the list; A is not written first
	B string `arg:"1"`
	A string `arg:"0"`
	C string `arg:"2,optional"`
}

func (threeWords) Class() string { return "X" }
