package troupe

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestAStateThatCannotBeLoadedRunsNothing(t *testing.T) {
	boom := errors.New("boom")
	for name, k := range map[string]*keeperDouble{
		"load fails":    {loadErr: boom},
		"another type":  {it: Iteration{Cursor: json.RawMessage(`"b"`)}},
		"no JSON":       {it: Iteration{Cursor: json.RawMessage(`1 2`)}},
		"below 0":       {it: Iteration{Cursor: json.RawMessage(`-1`)}},
		"not a integer": {it: Iteration{Cursor: json.RawMessage(`1.5`)}},
	} {
		m := &mails{letters: letters(3)}
		before := k.it
		if err := run(t, m.registry(), k); err == nil || k.loadErr != nil && !errors.Is(err, boom) {
			t.Errorf("%s: returned %v", name, err)
		}
		if len(m.ran) != 0 || k.finished || !slices.Equal(before.Cursor, k.it.Cursor) {
			t.Errorf("%s: ran %q, state %+v", name, m.ran, k.it)
		}
	}
}

// cursors runs an iteration without items and returns the cursor that items got.
func cursorOf[C any](t *testing.T, saved string) *C {
	t.Helper()
	var got *C
	var r Registry
	HandleIterable(&r, func(_ context.Context, _ *Job[mailing], cursor *C, _ func(C, int) bool) error {
		got = cursor
		return nil
	}, func(context.Context, *Job[mailing], int) error { return nil })
	if err := run(t, &r, &keeperDouble{it: Iteration{Executions: 1, Cursor: json.RawMessage(saved)}}); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestCursorsOfAnyJSON(t *testing.T) {
	type place struct {
		Table string `json:"table"`
		ID    int64  `json:"id"`
	}
	if got := cursorOf[int](t, ""); got != nil {
		t.Errorf("no cursor: %v", *got)
	}
	if got := cursorOf[int](t, "null"); got != nil { // what Ruby saves before the first item
		t.Errorf("null: %v", *got)
	}
	if got := cursorOf[int](t, " 199"); got == nil || *got != 199 {
		t.Errorf("199: %v", got)
	}
	if got := cursorOf[string](t, `"f\u00fcnf"`); got == nil || *got != "fünf" {
		t.Errorf("a string: %v", got)
	}
	if got := cursorOf[place](t, `{"table":"users","id":9007199254740993}`); got == nil || *got != (place{"users", 9007199254740993}) {
		t.Errorf("an object: %v", got)
	}
	if got := cursorOf[any](t, `[9007199254740993,null]`); got == nil || !reflect.DeepEqual(*got, []any{json.Number("9007199254740993"), nil}) {
		t.Errorf("anything: %v", got)
	}
}

func TestTheCursorIsWrittenAsRubyWouldWriteIt(t *testing.T) {
	var r Registry
	HandleIterable(&r, func(_ context.Context, _ *Job[mailing], _ *any, yield func(any, any) bool) error {
		for _, c := range []any{map[string]any{"a<b": "ü\u2028"}, 100.0} {
			if !yield(c, c) {
				break
			}
		}
		return nil
	}, func(_ context.Context, _ *Job[mailing], c any) error {
		if c == 100.0 {
			return errors.New("boom")
		}
		return nil
	})
	k := &keeperDouble{interrupted: func() bool { return true }}
	if err := run(t, &r, k); !errors.Is(err, ErrInterrupted) || string(k.it.Cursor) != "{\"a<b\":\"ü\u2028\"}" {
		t.Errorf("%v, cursor %s", err, k.it.Cursor)
	}
	k = &keeperDouble{}
	if err := run(t, &r, k); err == nil || string(k.it.Cursor) != "100.0" {
		t.Errorf("%v, cursor %s", err, k.it.Cursor)
	}
}

func TestErrorsOfItems(t *testing.T) {
	boom := errors.New("boom")
	ran := 0
	var got *int
	handler := func(items func(yield func(int, string) bool) error) *Registry {
		ran = 0
		var r Registry
		HandleIterable(&r, func(_ context.Context, _ *Job[mailing], cursor *int, yield func(int, string) bool) error {
			got = cursor
			return items(yield)
		}, func(_ context.Context, _ *Job[mailing], item string) error {
			ran++
			if item == "bad" {
				return errors.New("bad item")
			}
			return nil
		})
		return &r
	}
	k := &keeperDouble{it: Iteration{Executions: 1, Cursor: json.RawMessage("7")}}
	err := run(t, handler(func(func(int, string) bool) error { return boom }), k)
	if !errors.Is(err, boom) || got == nil || *got != 7 || string(k.it.Cursor) != "7" || k.finished {
		t.Errorf("before the first item: %v, cursor %v, state %+v", err, got, k.it)
	}
	k = &keeperDouble{}
	err = run(t, handler(func(yield func(int, string) bool) error { yield(1, "a"); yield(2, "b"); return boom }), k)
	if !errors.Is(err, boom) || ran != 2 || string(k.it.Cursor) != "2" || k.finished {
		t.Errorf("in the middle: %v, %d ran, state %+v", err, ran, k.it)
	}
	k = &keeperDouble{}
	err = run(t, handler(func(yield func(int, string) bool) error {
		if yield(1, "bad") || yield(2, "after the end") {
			t.Error("yield returned true after an error")
		}
		return boom // of a broken connection, say
	}), k)
	if err == nil || err.Error() != "bad item" || ran != 1 || string(k.it.Cursor) != "1" {
		t.Errorf("after the error of an item: %v, %d ran, state %+v", err, ran, k.it)
	}
	k = &keeperDouble{}
	var r Registry
	HandleIterable(&r, func(_ context.Context, _ *Job[mailing], _ *float64, yield func(float64, int) bool) error {
		_ = yield(1.5, 1) && yield(math.NaN(), 2)
		return nil
	}, func(context.Context, *Job[mailing], int) error { ran++; return nil })
	ran = 0
	if err = run(t, &r, k); err == nil || ran != 1 || string(k.it.Cursor) != "1.5" || k.finished {
		t.Errorf("a cursor that is no JSON: %v, %d ran, state %+v", err, ran, k.it)
	}
}

func TestYieldSliceLikeArrayEnumerator(t *testing.T) {
	list := func(cursor *int, stop int) (got []int, err error) {
		err = YieldSlice([]int{10, 11, 12}, cursor, func(i, v int) bool {
			if v != i+10 {
				t.Errorf("index %d with %d", i, v)
			}
			got = append(got, i)
			return i != stop
		})
		return got, err
	}
	at := func(i int) *int { return &i }
	for _, c := range []struct {
		cursor *int
		stop   int
		want   []int
	}{
		{nil, -1, []int{0, 1, 2}},
		{at(0), -1, []int{0, 1, 2}},
		{at(2), -1, []int{2}},
		{at(0), 1, []int{0, 1}},
		{at(3), -1, nil}, // the list has become shorter
		{at(99), -1, nil},
	} {
		if got, err := list(c.cursor, c.stop); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
	if got, err := list(at(-1), -1); err == nil || got != nil {
		t.Errorf("below 0: %v, %v", got, err)
	}
}

func TestMistakesInHandleIterable(t *testing.T) {
	m := &mails{}
	var r Registry
	HandleIterable(&r, m.items, m.item)
	for name, f := range map[string]func(){
		"second":    func() { HandleIterable(&r, m.items, m.item) },
		"nil items": func() { HandleIterable[mailing, int](new(Registry), nil, m.item) },
		"nil each":  func() { HandleIterable(new(Registry), m.items, nil) },
		"options": func() {
			HandleIterable(new(Registry), m.items, m.item, IterableOptions[mailing]{}, IterableOptions[mailing]{})
		},
	} {
		func() {
			defer func() {
				if text, ok := recover().(string); !ok || !strings.HasPrefix(text, "troupe: Handle") {
					t.Errorf("%s: panicked with %v", name, text)
				}
			}()
			f()
		}()
	}
	if e, _ := r.Lookup("Mailing"); !e.Iterable {
		t.Error("the entry does not say that it is iterable")
	}
}

func TestOptionsOfAnIterableJob(t *testing.T) {
	m := &mails{}
	var r Registry
	HandleIterable(&r, m.items, m.item, IterableOptions[mailing]{Options: Options{Retries: Times(3)}})
	e, _ := r.Lookup("Mailing")
	if e.Options.Retries != Times(3) {
		t.Errorf("options %+v", e.Options)
	}
}
