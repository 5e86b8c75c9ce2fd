package words

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxHead is how many bytes of a text that comes from a job stand in a log line or in a
// message: an error may quote megabytes, and a jid or a class may have as many. What
// is stored in Redis keeps the whole text, an error up to Sidekiq's limit.
const MaxHead = 1024

// Head returns the first MaxHead bytes of text, fewer where that would split a rune.
func Head(text string) string {
	if len(text) <= MaxHead {
		return text
	}
	return strings.Clone(first(text, MaxHead)) // not a window on megabytes
}

// Short returns text if it has at most so many bytes, else its begin with "…".
func Short(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return first(text, most) + "…"
}

// FirstLine is the first line of text that is not blank, Short of so many bytes.
func FirstLine(text string, most int) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.Clone(Short(line, most)) // not a window on megabytes
}

// first is at most so many bytes of a longer text, whole runes of it.
func first(text string, most int) string {
	end := most
	for end > max(0, most-utf8.UTFMax) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// Text returns text if it has at most MaxHead bytes, else its Head and its length:
// "aaaa… (20971520 bytes)".
func Text(text string) string {
	if len(text) <= MaxHead {
		return text
	}
	return Head(text) + "… (" + strconv.Itoa(len(text)) + " bytes)"
}

// Word returns text as one word of a shell's command line, in quotes where it needs them.
func Word(text string) string {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_@%+=:,./-", r)
	}
	if text != "" && !strings.ContainsFunc(text, odd) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
