package wirejson

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPlainToFindsWhatNeedsAnEscape(t *testing.T) {
	plain := func(b byte) bool { return b >= ' ' && b != '"' && b != '\\' }
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.SampledFrom([]string{"a", " ", "é", "\xff", "\x80", "\x7f", "abcdefgh", "\"", "\\", "\x00", "\x1f", "\n"})
		s := strings.Join(rapid.SliceOfN(some, 0, 20).Draw(t, "parts"), "")
		for i := range len(s) + 1 {
			want := i
			for want < len(s) && plain(s[want]) {
				want++
			}
			if got := plainTo(s, i); got != want {
				t.Fatalf("%q from %d: %d, want %d", s, i, got, want)
			}
		}
	})
}
