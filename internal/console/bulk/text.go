package bulk

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// needle is a text that is looked for, in each of the forms that people write it in: any case of
// letters, letters as \u00fc, and for JSON with or without spaces between its parts.
type needle struct {
	plain []string // in texts
	json  []string // in JSON as unescaped writes it
}

func newNeedle(text string) needle {
	text = strings.ToLower(text)
	quoted, _ := json.Marshal(text) // a text can always be written
	return needle{
		plain: forms(text, escapes.ReplaceAllStringFunc(text, letter)),
		json:  forms(unescaped(text, true), unescaped(text, false), unescaped(string(quoted[1:len(quoted)-1]), true)),
	}
}

// forms are the texts that are there: an empty one is in everything.
func forms(texts ...string) []string {
	return slices.DeleteFunc(texts, func(text string) bool { return text == "" })
}

// in reports whether it is a part of a text.
func (n needle) in(text string) bool { return within(strings.ToLower(text), n.plain) }

// inJSON reports whether it is a part of the text of a JSON value, or of one of the texts in it.
func (n needle) inJSON(raw json.RawMessage) bool {
	return within(strings.ToLower(unescaped(string(raw), false)), n.json)
}

func within(text string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// unescaped is a piece of JSON with \u00fc and \/ as the letters that they stand for, and without
// the spaces between its parts. Inside tells that the piece begins inside of a string.
func unescaped(text string, inside bool) string {
	var b strings.Builder
	b.Grow(len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '"':
			inside = !inside
		case c == '\\' && i+1 < len(text):
			escaped := cmp.Or(escape.FindString(text[i:min(i+12, len(text))]), text[i:i+2])
			b.WriteString(letter(escaped))
			i += len(escaped) - 1
			continue
		case !inside && strings.IndexByte(" \n\r\t", c) >= 0 && between(text, i):
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// between reports whether the space at text[i] is between tokens of JSON, and not within one.
func between(text string, i int) bool {
	const space, sign = " \n\r\t", `,:[]{}"`
	before, after := strings.TrimRight(text[:i], space), strings.TrimLeft(text[i:], space)
	return before == "" || after == "" || strings.IndexByte(sign, before[len(before)-1]) >= 0 || strings.IndexByte(sign, after[0]) >= 0
}

// oneEscape is a letter, or the two halves of one, as \u00fc.
const oneEscape = `(?i)(?:\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|\\u[0-9a-f]{4})`

// escape finds one that a text begins with, escapes all of them.
var escape, escapes = regexp.MustCompile(`^` + oneEscape), regexp.MustCompile(oneEscape)

// letter is the letter of an escape, or the short escape of what has to stay one.
func letter(escaped string) string {
	if escaped == `\/` {
		return "/"
	}
	if len(escaped) < 6 {
		return escaped
	}
	var text string
	if err := json.Unmarshal([]byte(`"`+strings.ReplaceAll(escaped, "\\U", "\\u")+`"`), &text); err != nil || text == "\ufffd" {
		return escaped // half a letter
	}
	if text >= " " && text != `"` && text != `\` {
		return text
	}
	quoted, _ := json.Marshal(text)
	return string(quoted[1 : len(quoted)-1])
}
