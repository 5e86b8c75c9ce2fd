// Package cut shortens texts that come from jobs, for log lines and messages.
package cut

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Max is how many bytes of a text that comes from a job stand in a log line or in a
// message: an error may quote megabytes, and a jid or a class may have as many. What
// is stored in Redis keeps the whole text, an error up to Sidekiq's limit.
const Max = 1024

// Head returns the first Max bytes of text, fewer where that would split a rune.
func Head(text string) string {
	if len(text) <= Max {
		return text
	}
	end := Max
	for end > Max-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.Clone(text[:end]) // not a window on megabytes
}

// Text returns text if it has at most Max bytes, else its Head and its length:
// "aaaa… (20971520 bytes)".
func Text(text string) string {
	if len(text) <= Max {
		return text
	}
	return Head(text) + "… (" + strconv.Itoa(len(text)) + " bytes)"
}
