package wirejson

import "testing"

// A lookup is one step for what each run asks for: a collision would not be
// wrong, but slow.
func TestOrdinaryKeysAreFoundAtOnce(t *testing.T) {
	p := mustParse(t, RubyPayloads[0])
	i := 0
	for key := range p.Keys() {
		if at := p.marks.index(markOf(key)); at != i {
			t.Errorf("%q is looked for in field %d first, is field %d", key, at, i)
		}
		i++
	}
	for _, key := range []string{"log_level", "display_class", "wrapped", "retry_count", "tags", "bid", "retry_queue", "recoveries"} {
		if p.marks.met(markOf(key)) {
			t.Errorf("%q shares the mark of another key: all fields are compared", key)
		}
	}
}

// Marks are never taken back and places go stale: neither may mislead.
func TestKeysAreFoundAfterOthersAreGone(t *testing.T) {
	p := mustParse(t, RubyPayloads[0])
	p.Delete("retry")
	p.SetString("wrapped", "W")
	p.Delete("queue")
	p.SetString("queue", "late")
	p.SetInt("retry", 7)
	for key, want := range map[string]string{"class": `"RecordJob"`, "args": "[1]", "wrapped": `"W"`, "queue": `"late"`, "retry": "7"} {
		if got, ok := p.Get(key); !ok || string(got) != want {
			t.Errorf("%s = %s, want %s", key, got, want)
		}
	}
	p.Delete("wrapped")
	for _, key := range []string{"wrapped", "retry_count", ""} {
		if got, ok := p.Get(key); ok {
			t.Errorf("%q = %s, want none", key, got)
		}
	}
}

// Keys of which most share a mark.
func TestKeysWithOneMark(t *testing.T) {
	p := mustParse(t, `{"aXb":1,"aYb":2,"aZb":3,"aYb":4,"a\u0058b":5}`)
	for key, want := range map[string]int64{"aXb": 5, "aYb": 4, "aZb": 3} {
		if got, ok := p.Int(key); !ok || got != want {
			t.Errorf("%s = %d, %v, want %d", key, got, ok, want)
		}
	}
	if _, ok := p.Get("aVb"); ok {
		t.Error("aVb is there")
	}
}
