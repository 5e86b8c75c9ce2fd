package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// blankERB replaces Ruby's ERB tags, so that the rest of the file can be read and
// all of its faults reported. A tag in the place of a value becomes a word, any
// other becomes nothing. It returns the lines with the first tag that begins in
// each, "" for none. Lines keep their numbers. Ruby runs tags in comments as well;
// here they do no harm.
func blankERB(text string) (string, map[int]string) {
	if !strings.Contains(text, "<%") {
		return text, nil
	}
	tags := map[int]string{}
	var out strings.Builder
	line, lineStart := 1, 0
	for i := 0; i < len(text); {
		switch {
		case text[i] == '\n':
			line, lineStart = line+1, i+1
		case strings.HasPrefix(text[i:], "<%"):
			if strings.HasPrefix(strings.TrimSpace(text[lineStart:i]), "#") {
				break
			}
			tag := text[i:]
			if end := strings.Index(tag, "%>"); end >= 0 {
				tag = tag[:end+2]
			}
			if strings.HasPrefix(tag, "<%=") {
				out.WriteString("erb")
			}
			breaks := strings.Count(tag, "\n")
			for n := range breaks {
				tags[line+1+n] = ""
			}
			if tags[line] == "" {
				tags[line] = tag
			}
			out.WriteString(strings.Repeat("\n", breaks))
			if breaks > 0 {
				line, lineStart = line+breaks, i+strings.LastIndexByte(tag, '\n')+1
			}
			i += len(tag)
			continue
		}
		out.WriteByte(text[i])
		i++
	}
	return out.String(), tags
}

// erbFaults has one fault a line; plain is where Ruby can write the file. What to do is told at the first.
func erbFaults(file, plain string, tags map[int]string) (out Faults) {
	want := "plain YAML: nothing here runs Ruby. Write the value itself, leave the key out for a flag or a variable " +
		"(RAILS_MAX_THREADS, REDIS_URL, APP_ENV), or let Ruby write the file: erb -T - " + shellWord(file) + " > " + plain
	for _, line := range slices.Sorted(maps.Keys(tags)) {
		tag := tags[line]
		if tag == "" {
			continue
		}
		tag, _, _ = strings.Cut(tag, "\n")
		out = append(out, Fault{File: file, Line: line, Field: "line", Value: fmt.Sprintf("ERB (%s)", clip(tag)), Want: want})
		want = fmt.Sprintf("plain YAML, see line %d", out[0].Line)
	}
	return out
}

// shellWord quotes a file's name for a command line, if it must be.
func shellWord(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune("/._-", r) && !unicode.In(r, unicode.L, unicode.N) }) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}
