package words_test

import (
	"strings"
	"testing"

	"github.com/troupehq/troupe/internal/words"
)

func TestALongTextIsCutAtARune(t *testing.T) {
	for name, tt := range map[string]struct{ text, head, mark string }{
		"empty":              {"", "", ""},
		"short":              {"Mail", "Mail", ""},
		"just fits":          {strings.Repeat("x", 1024), strings.Repeat("x", 1024), ""},
		"a byte too long":    {strings.Repeat("x", 1025), strings.Repeat("x", 1024), "… (1025 bytes)"},
		"within a rune of 2": {"x" + strings.Repeat("é", 600), "x" + strings.Repeat("é", 511), "… (1201 bytes)"},
		"within a rune of 4": {"xyz" + strings.Repeat("😀", 600), "xyz" + strings.Repeat("😀", 255), "… (2403 bytes)"},
		"no runes at all":    {strings.Repeat("\x80", 2000), strings.Repeat("\x80", 1020), "… (2000 bytes)"},
		"megabytes":          {strings.Repeat("ab", 10<<20), strings.Repeat("ab", 512), "… (20971520 bytes)"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := words.Head(tt.text); got != tt.head {
				t.Errorf("head %.40q… of %d bytes, want %.40q… of %d", got, len(got), tt.head, len(tt.head))
			}
			if got := words.Text(tt.text); got != tt.head+tt.mark {
				t.Errorf("text …%q of %d bytes, want …%q", got[max(0, len(got)-40):], len(got), tt.mark)
			}
		})
	}
	for got, want := range map[string]string{words.Short("äöü", 3): "ä…", words.Short("äöü", 6): "äöü", words.Short("ä", 1): "…", words.Short("", 0): "", words.FirstLine("\n a\nb", 9): "a", words.FirstLine("äöü\nb", 4): "äö…", words.FirstLine("", 4): ""} {
		if got != want {
			t.Errorf("got %q, expected %q", got, want)
		}
	}
}

func TestAWordOfAShell(t *testing.T) {
	for text, want := range map[string]string{
		"default": "default", "web-1:9:ab": "web-1:9:ab", "": "''", "a b": "'a b'", "$(x)": "'$(x)'", "it's": `'it'\''s'`, "é": "'é'",
	} {
		if got := words.Word(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
