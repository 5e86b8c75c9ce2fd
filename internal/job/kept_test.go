package job

import "testing"

// The cursor of an iterable job takes out what goes with it, and the end of the run comes after that.
func TestKeptPushesEndTwice(t *testing.T) {
	k := NewKept("p1")
	if err := k.Add(Push{Queue: "a", Payload: []byte(`{"jid":"c1"}`)}); err != nil {
		t.Fatal(err)
	}
	k.Moved()
	if n := len(k.End(false)); n != 1 {
		t.Errorf("the end has %d pushes, expected 1", n)
	}
	for _, all := range []bool{false, true} {
		if n := len(k.End(all)); n != 0 {
			t.Errorf("the second end has %d pushes", n)
		}
	}
}
