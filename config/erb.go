package config

import (
	"fmt"
	"strings"
)

// blankERB replaces Ruby's ERB tags, so that the rest of the file can still be
// read and all of its faults told: a tag that stands for a value by a word, any
// other by nothing. It returns the lines that had one, with the first tag that
// begins there, "" for none. Lines keep their numbers. Ruby runs tags
// in comments as well; here they do no harm.
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

func erbFault(file string, line int, tag string) Fault {
	tag, _, _ = strings.Cut(tag, "\n")
	return Fault{
		File: file, Line: line, Field: "line", Value: fmt.Sprintf("ERB (%s)", clip(tag)),
		Want: "plain YAML: there is no Ruby here to run it. Write the value itself, or leave the key out and use " +
			"a flag or a variable (RAILS_MAX_THREADS, REDIS_URL, APP_ENV)",
	}
}
