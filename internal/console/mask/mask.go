// Package mask hides secrets in jobs and in texts about them before people see them. Pages, their
// JSON, exports and commands follow this one rule.
package mask

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
)

// The ways to show arguments.
const (
	Mask = "mask" // what is secret is masked; the others stay digit by digit
	Hide = "hide" // only their number, and of texts as with Mask
	Show = "show" // as they are
)

// Masked stands for what nobody is to see.
const Masked = `"` + maskedText + `"`

const (
	maskedText = "[masked]"
	hidden     = `"[hidden]"`
	sealed     = `"[encrypted data]"`
)

// secret are parts of the names of keys, in lower case and without _ and -, whose values are masked.
var secret = []string{
	"password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "privatekey", "authorization", "cookie",
	"creditcard", "cardnumber", "cvv", "cvc", "iban", "ssn", "socialsecurity",
}

// deepest is how deep values may be nested; what is deeper is masked.
const deepest = 50

// Masker hides what its rules say. Nil hides nothing. It is safe for concurrent use.
type Masker struct {
	how  string
	keys []string         // parts of the names of keys, as those of secret
	args map[string][]int // by class, the positions of arguments, the first one is 1
	told *regexp.Regexp
}

// New returns a Masker. how is Mask, Hide or Show. With Mask it hides values that look secret, the values of keys whose names
// contain one of keys, and the arguments of a class at the positions in args, counted from 1. The case of letters, _ and - do not
// count in the names of keys.
func New(how string, keys []string, args map[string][]int) *Masker {
	m := &Masker{how: how, keys: slices.Clone(secret), args: args}
	for _, key := range keys {
		m.keys = append(m.keys, plain(key))
	}
	m.told = tells(m.keys)
	return m
}

// all reports whether nothing is hidden.
func (m *Masker) all() bool { return m == nil || m.how == Show }

var separators = strings.NewReplacer("_", "", "-", "", " ", "")

func plain(key string) string { return separators.Replace(strings.ToLower(key)) }

func (m *Masker) secret(key string) bool {
	name := plain(key)
	return slices.ContainsFunc(m.keys, func(part string) bool { return strings.Contains(name, part) })
}

// tells returns an expression that matches where a text gives a secret key a value: in JSON, a query, a header, or
// a printed hash of Ruby or map of Go. The value follows the group.
func tells(keys []string) *regexp.Regexp {
	spelled := make([]string, len(keys))
	for i, key := range keys {
		letters := strings.Split(key, "")
		for j, letter := range letters {
			letters[j] = regexp.QuoteMeta(letter)
		}
		spelled[i] = strings.Join(letters, "[ _-]*")
	}
	return regexp.MustCompile(`(?i)(?:` + strings.Join(spelled, "|") + `)(?:s|_[a-z0-9_]+)?(?:[\\"'` + "`" + `)\]}\s]|%5D|%22)*(=>?|%3D|:)(?:[^:]|$)`)
}

// value is where in a text the value of something secret begins; -1 if there is none.
func (m *Masker) value(text string) int {
	if !strings.ContainsAny(text, ":=%") {
		return -1
	}
	for _, at := range m.told.FindAllStringSubmatchIndex(text, -1) {
		// "JWT::InvalidToken: it has expired" names a class.
		name := text[:at[0]]
		if i := strings.LastIndexFunc(name, func(c rune) bool { return c != ':' && c != '_' && !letter(c) }); i >= 0 {
			name = name[i:]
		}
		if class := strings.Contains(name, "::") && text[at[0]] >= 'A' && text[at[0]] <= 'Z'; !class || text[at[2]:at[3]] != ":" {
			return at[3]
		}
	}
	return -1
}

func letter(c rune) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' }

// Text is a text of an error, an event or a backtrace for people: what follows the name of something
// secret and a colon or an equals sign is masked, to its end.
func (m *Masker) Text(text string) string {
	if m.all() {
		return text
	}
	if at := m.value(text); at >= 0 && strings.TrimSpace(text[at:]) != "" {
		return text[:at] + maskedText
	}
	return text
}

// Typed is the value of a field of a filter or a form, for others than who has typed it. A text that was
// looked for in arguments as they are may be all of a secret.
func (m *Masker) Typed(field, value string, everywhere bool) string {
	if everywhere && !m.all() && (field == "text" || field == "q") {
		return maskedText
	}
	return m.Text(value)
}

// Args masks the arguments of a job of these classes, a JSON array. A job may be of several
// classes: that of its wrapper, too. Without classes the positions to mask are not known, so if the
// rules have positions, all arguments are hidden.
func (m *Masker) Args(args json.RawMessage, classes ...string) json.RawMessage {
	args = job.ShowSealed(args)
	switch {
	case m.all() || args == nil:
		return args
	case m.how == Hide, len(classes) == 0 && len(m.args) > 0:
		return fmt.Appendf(nil, `["[%d hidden]"]`, len(elements(args)))
	}
	return m.Value(at(args, m.positions(classes), 0))
}

// positions returns the positions of arguments that are masked in jobs of these classes.
func (m *Masker) positions(classes []string) (at []int) {
	for _, class := range classes {
		at = append(at, m.args[class]...)
	}
	return at
}

// at is an array with what stands at these positions behind the first ones masked.
func at(array json.RawMessage, positions []int, behind int) json.RawMessage {
	if len(positions) == 0 {
		return array
	}
	list := elements(array)
	for i := range list {
		if slices.Contains(positions, i+1-behind) {
			list[i] = json.RawMessage(Masked)
		}
	}
	return join(list)
}

// Value masks a JSON value.
func (m *Masker) Value(raw json.RawMessage) json.RawMessage {
	if m.all() {
		return raw
	}
	return m.inner(raw, 0)
}

// Hides reports whether something is masked in a text that was.
func Hides(text string) bool {
	return strings.Contains(text, maskedText) || strings.Contains(text, hidden)
}

// Result is what a job has returned, for people; nil for nothing.
func (m *Masker) Result(raw json.RawMessage) json.RawMessage {
	switch {
	case raw == nil || m.all():
		return raw
	case m.how == Hide:
		return json.RawMessage(hidden)
	}
	return m.Value(raw)
}

func (m *Masker) inner(raw json.RawMessage, depth int) json.RawMessage {
	if depth > deepest {
		return json.RawMessage(Masked)
	}
	switch text := bytes.TrimLeft(raw, " \t\r\n"); {
	case bytes.HasPrefix(text, []byte("[")):
		list := elements(raw)
		for i := range list {
			list[i] = m.inner(list[i], depth+1)
		}
		return join(list)
	case bytes.HasPrefix(text, []byte("{")):
		object, err := troupe.ParsePayload(raw)
		if err != nil {
			return json.RawMessage(Masked)
		}
		var b bytes.Buffer
		b.WriteByte('{')
		for key := range object.Keys() {
			if b.Len() > 1 {
				b.WriteByte(',')
			}
			name, err := json.Marshal(key)
			if err != nil {
				return json.RawMessage(Masked)
			}
			b.Write(name)
			b.WriteByte(':')
			if m.secret(key) {
				b.WriteString(Masked)
				continue
			}
			value, _ := object.Get(key)
			b.Write(m.inner(value, depth+1))
		}
		b.WriteByte('}')
		return b.Bytes()
	case bytes.HasPrefix(text, []byte(`"`)):
		if value, ok := unquote(text); !ok || m.value(value) >= 0 {
			return json.RawMessage(Masked)
		}
	}
	return raw
}

// unquote is the text of a string of JSON.
func unquote(raw json.RawMessage) (text string, ok bool) {
	return text, json.Unmarshal(raw, &text) == nil
}

// elements are those of an array, byte by byte.
func elements(raw json.RawMessage) (list []json.RawMessage) {
	_ = json.Unmarshal(raw, &list) // what is none has none
	return list
}

func join(list []json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, one := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(one)
	}
	b.WriteByte(']')
	return b.Bytes()
}
