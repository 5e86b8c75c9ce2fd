// Package mask hides secrets in the arguments of jobs before people see them.
package mask

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/troupehq/troupe"
)

// The ways to show arguments.
const (
	Mask = "mask" // values of keys that look secret are masked; the others stay digit by digit
	Hide = "hide" // only their number
	Show = "show" // as they are
)

// Masked stands for what nobody is to see.
const Masked = `"[masked]"`

// secret are parts of the names of keys, in lower case and without _ and -, whose values are masked.
var secret = []string{
	"password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "privatekey", "authorization", "cookie",
	"creditcard", "cardnumber", "cvv", "cvc", "iban", "ssn", "socialsecurity",
}

// deepest is how deep values may be nested; what is deeper is masked.
const deepest = 50

// Rules are what is masked beside what looks secret. The zero value is nothing.
type Rules struct {
	Keys []string         // parts of the names of keys; case, _ and - do not count
	Args map[string][]int // by class, the positions of arguments, the first one is 1
}

// Args returns the arguments of a job, a JSON array, for people.
func Args(args json.RawMessage, how string) json.RawMessage { return Rules{}.Mask(args, how) }

// Mask returns the arguments of a job, a JSON array, for people. A job may be of several classes:
// that of its wrapper, too.
func (r Rules) Mask(args json.RawMessage, how string, classes ...string) json.RawMessage {
	switch how {
	case Show:
		return args
	case Hide:
		return fmt.Appendf(nil, `["[%d hidden]"]`, len(elements(args)))
	}
	var at []int
	for _, class := range classes {
		at = append(at, r.Args[class]...)
	}
	if len(at) == 0 {
		return r.value(args, 0)
	}
	list := elements(args)
	for i := range list {
		if slices.Contains(at, i+1) {
			list[i] = json.RawMessage(Masked)
		}
	}
	masked, err := json.Marshal(list)
	if err != nil {
		return json.RawMessage(Masked)
	}
	return r.value(masked, 0)
}

// Payload returns the whole of a job for people: its arguments as Args does, and of its other
// fields nothing that is secret.
func Payload(p *troupe.Payload, how string) *troupe.Payload {
	if how == Show {
		return p
	}
	masked := p.Clone()
	for key := range p.Keys() {
		text, _ := p.Get(key)
		switch {
		case key == "args":
			text = Args(text, how)
		case Rules{}.secret(key):
			text = json.RawMessage(Masked)
		default:
			text = Rules{}.value(text, 0)
		}
		masked.Set(key, text)
	}
	return masked
}

// value masks what is secret in a value.
func (r Rules) value(raw json.RawMessage, depth int) json.RawMessage {
	if depth > deepest {
		return json.RawMessage(Masked)
	}
	var b strings.Builder
	switch text := strings.TrimLeft(string(raw), " \t\r\n"); {
	case strings.HasPrefix(text, "["):
		b.WriteByte('[')
		for i, element := range elements(raw) {
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(r.value(element, depth+1))
		}
		b.WriteByte(']')
	case strings.HasPrefix(text, "{"):
		object, err := troupe.ParsePayload(raw)
		if err != nil {
			return json.RawMessage(Masked)
		}
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
			if r.secret(key) {
				b.WriteString(Masked)
				continue
			}
			inner, _ := object.Get(key)
			b.Write(r.value(inner, depth+1))
		}
		b.WriteByte('}')
	case strings.HasPrefix(text, `"`) && told.MatchString(plain.Replace(strings.ToLower(text))):
		return json.RawMessage(Masked)
	default:
		return raw
	}
	return json.RawMessage(b.String())
}

// told finds a text that gives something secret a value: one with JSON in it, a query, a piece
// of a job that cannot be read.
var told = regexp.MustCompile(`(` + strings.Join(secret, "|") + `)[\\"']*[:=]`)

var plain = strings.NewReplacer("_", "", "-", "", " ", "")

func (r Rules) secret(key string) bool {
	name := plain.Replace(strings.ToLower(key))
	has := func(part string) bool { return strings.Contains(name, part) }
	return slices.ContainsFunc(secret, has) ||
		slices.ContainsFunc(r.Keys, func(part string) bool { return has(plain.Replace(strings.ToLower(part))) })
}

// elements are those of an array, byte by byte.
func elements(raw json.RawMessage) (list []json.RawMessage) {
	_ = json.Unmarshal(raw, &list) // what is none has none
	return list
}
