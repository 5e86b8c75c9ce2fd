package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
)

// What is no configuration file at all has one fault, however long it is.
func TestAFileOfAnotherKindHasOneFault(t *testing.T) {
	latin := strings.Repeat("tag: caf\xe9\n", 5000)
	for what, c := range map[string]struct{ text, want string }{
		"a program": {"\x7fELF\x02\x01\n" + strings.Repeat("\x00\xff\n", 5000), "troupe.yml: file is binary (it has a zero byte), expected YAML in UTF-8"},
		"latin-1":   {"concurrency: 5\n" + latin, "troupe.yml:2: line is not UTF-8, as are 4,999 more, expected UTF-8"},
		"one line":  {"tag: caf\xe9\n", "troupe.yml:1: line is not UTF-8, expected UTF-8"},
	} {
		_, err := Parse("troupe.yml", []byte(c.text), "")
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, expected %s", what, err, c.want)
		}
	}
}

// Of thousands of faults the first hundred are told, and how many there are beside them.
func TestFaultsAreTold(t *testing.T) {
	var text strings.Builder
	text.WriteString("handlers:\n")
	for i := range 3000 {
		fmt.Fprintf(&text, "  C%d: {frobnicate: 1}\n", i)
	}
	_, err := Parse("troupe.yml", []byte(text.String()), "")
	harness.ErrorHas(t, "3,000 faults", err, "more faults")
	if lines := strings.Count(err.Error(), "\n") + 1; lines != mostFaults+1 {
		t.Errorf("%d lines, expected %d", lines, mostFaults+1)
	}
}

// A value that is none of those there are is answered with the one that may be meant.
func TestAValueThatMayBeMeant(t *testing.T) {
	for text, want := range map[string]string{
		"strategy: one_for_all":         "(did you mean all_for_one?)",
		"strategy: {one_for_all: {}}":   "expected all_for_one",
		"log_level: wran":               "(did you mean warn?)",
		"fetch: relable":                "(did you mean reliable?)",
		"handlers: {A: {builtin: nop}}": "(did you mean noop?)",
	} {
		_, err := Parse("troupe.yml", []byte(text+"\n"), "")
		harness.ErrorHas(t, text, err, want)
	}
	if _, err := Parse("troupe.yml", []byte("log_level: loud\n"), ""); err == nil || strings.Contains(err.Error(), "did you mean") {
		t.Errorf("nothing is near: %v", err)
	}
}
