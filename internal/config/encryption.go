package config

import (
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/troupehq/troupe"
)

// encryptionEntry is what the file says of the keys that seal the last argument of jobs.
type encryptionEntry struct {
	Active int // 0 is the highest version
	Keys   map[int]secretText
}

const wantKeys = "a map with keys, such as {1: {file: PATH}}, and active"

var encryptionSettings = readers[encryptionEntry]{
	"active": func(p *parse, e *encryptionEntry, n *node, field string) {
		e.Active = p.int(n, field, 1, math.MaxInt32)
	},
	"keys": func(p *parse, e *encryptionEntry, n *node, field string) {
		if n.kind != mapping {
			p.fault(n.line, field, "no map", "a map of versions, such as {1: {file: PATH}, 2: {env: VARIABLE}}")
			return
		}
		e.Keys = map[int]secretText{}
		for _, k := range n.entries {
			at := field + "." + k.key
			version, err := strconv.Atoi(k.key)
			if err != nil || version < 1 || version > math.MaxInt32 {
				p.fault(k.line, at, strconv.Quote(clip(k.key)), "a version, a number from 1")
				continue
			}
			text := p.text(k.value, at)
			if text.literal() || k.value.kind == null {
				p.fault(k.line, at, "no place of a key", "{env: VARIABLE} or {file: PATH}: a key does not stand in this file")
				continue
			}
			e.Keys[version] = text
		}
	},
}

// encryption reads the keys where the file says that they are.
func (l *loader) encryption() {
	p := &parse{name: l.s.Path, out: &File{}}
	said := &l.s.Encryption
	keys := troupe.Encryption{Active: said.Active, Keys: map[int][]byte{}}
	for _, version := range slices.Sorted(maps.Keys(said.Keys)) {
		text, field := said.Keys[version], fmt.Sprintf("encryption.keys.%d", version)
		if !p.resolve(&text, field, l.getenv) {
			continue
		}
		key, ok := keyOf(text.Value)
		if !ok {
			p.fault(text.line, field, text.String(), "32 bytes in base64, as openssl rand -base64 32 prints them")
			continue
		}
		keys.Keys[version] = key
	}
	l.faults = append(l.faults, p.faults...)
	if len(keys.Keys) < len(said.Keys) {
		return // told
	}
	if _, ok := said.Keys[said.Active]; said.Active != 0 && !ok {
		l.faults = append(l.faults, Fault{File: l.s.Path, Field: "encryption.active", Value: strconv.Itoa(said.Active), Want: "a version that keys has, or nothing for the highest"})
		return
	}
	l.s.Keys = keys
}

// keyOf is the key of a text from a variable or a file.
func keyOf(text string) ([]byte, bool) {
	text = strings.TrimRight(strings.TrimSpace(text), "=")
	for _, form := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if key, err := form.DecodeString(text); err == nil && len(key) == troupe.KeySize {
			return key, true
		}
	}
	return nil, false
}
