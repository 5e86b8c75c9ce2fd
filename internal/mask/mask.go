// Package mask hides secrets in the arguments of jobs before people see them.
package mask

import (
	"encoding/json"
	"fmt"
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

// Args returns the arguments of a job, a JSON array, for people.
func Args(args json.RawMessage, how string) json.RawMessage {
	switch how {
	case Show:
		return args
	case Hide:
		return fmt.Appendf(nil, `["[%d hidden]"]`, len(elements(args)))
	}
	return value(args, 0)
}

// value masks what is secret in a value.
func value(raw json.RawMessage, depth int) json.RawMessage {
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
			b.Write(value(element, depth+1))
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
			if isSecret(key) {
				b.WriteString(Masked)
				continue
			}
			inner, _ := object.Get(key)
			b.Write(value(inner, depth+1))
		}
		b.WriteByte('}')
	default:
		return raw
	}
	return json.RawMessage(b.String())
}

var plain = strings.NewReplacer("_", "", "-", "", " ", "")

func isSecret(key string) bool {
	name := plain.Replace(strings.ToLower(key))
	for _, s := range secret {
		if strings.Contains(name, s) {
			return true
		}
	}
	return false
}

// elements are those of an array, byte by byte.
func elements(raw json.RawMessage) (list []json.RawMessage) {
	_ = json.Unmarshal(raw, &list) // what is none has none
	return list
}
