package laravel

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	maxDepth = 4096 // PHP's own limit, unserialize_max_depth
	minEntry = 6    // the length of the shortest key and value, i:0;N;
)

// ParseObject reads an object that PHP's serialize() has written, such as the command of a job. Its
// text begins with O:, the length of the name of its class, and that name.
//
// Whatever the text is, time and memory are proportional to its length. Objects and arrays may be
// nested 4096 deep, as in PHP. An error names the offset in bytes, what was expected, and what is
// there: at most a byte or a number, as the text may be secret.
func ParseObject(text string) (*Object, error) {
	if !strings.HasPrefix(text, "O:") {
		return nil, errors.New("laravel: not a PHP object, expected O: at its beginning")
	}
	p := &parser{text: text}
	v := p.value()
	if p.at < len(text) {
		p.expected(p.at, "the end")
	}
	if p.err != nil {
		return nil, fmt.Errorf("laravel: reading a PHP object: %w", p.err)
	}
	return v.(*Object), nil
}

// parser reads values from a text. What its methods return after an error is of no use.
type parser struct {
	text    string
	at      int
	err     error // the first
	depth   int
	pending int // entries of open objects and arrays that have not begun

	// PHP numbers values from 1 in the order in which they begin, but not keys and R: itself;
	// r: and R: mean a value by its number.
	values []any
	opaque int // the number of the first C:, or 0
}

// value reads one value.
func (p *parser) value() any {
	start, letter := p.at, byte(0)
	if left := p.text[start:]; strings.HasPrefix(left, "N;") || len(left) > 1 && left[0] != 'N' && left[1] == ':' {
		letter = left[0]
		p.at += 2
	}
	var v any
	switch letter {
	case 'N':
	case 'b':
		n := p.integer(';')
		if n != 0 && n != 1 {
			p.expected(start+2, "0 or 1")
		}
		v = n == 1
	case 'i':
		v = p.integer(';')
	case 'd':
		v = p.float()
	case 's':
		v = p.bytes(`"`, `";`)
	case 'E':
		class, name, ok := strings.Cut(p.bytes(`"`, `";`), ":")
		if !ok {
			p.expected(start+2, "an enum, a colon and its case")
		}
		v = Enum{class, name}
	case 'a':
		a := new(Array)
		p.values = append(p.values, a)
		a.Keys, a.Values = p.entries()
		return a
	case 'O':
		o := &Object{Class: p.bytes(`"`, `":`)}
		p.values = append(p.values, o)
		keys, values := p.entries()
		o.Properties = make([]Property, len(values))
		for i := range values {
			o.Properties[i] = property(fmt.Sprint(keys[i]), values[i])
		}
		return o
	case 'C':
		if p.opaque == 0 {
			p.opaque = len(p.values) + 1
		}
		v = Opaque{p.bytes(`"`, `":`), p.bytes("{", "}")}
	case 'r', 'R':
		v = p.reference(letter == 'r')
		if letter == 'R' {
			return v
		}
	default:
		p.expected(start, "a value")
	}
	p.values = append(p.values, v)
	return v
}

// entries reads the number of entries of an object or array, and these. The bytes left must suffice
// for them and for all that are pending elsewhere, so what is allocated for all together is bounded
// by the length of the text, however they are nested.
func (p *parser) entries() (keys, values []any) {
	if p.depth++; p.depth > maxDepth {
		p.fail(p.at, "one more level", fmt.Sprintf("objects and arrays at most %d deep", maxDepth))
	}
	n := p.size(p.pending, minEntry)
	p.literal("{")
	p.pending += n
	keys, values = make([]any, n), make([]any, n)
	for i := range n {
		p.pending--
		keys[i] = p.key()
		if values[i] = p.value(); p.err != nil {
			return nil, nil
		}
	}
	p.literal("}")
	p.depth--
	return keys, values
}

// key reads a key of an array or the name of a property, which has no number.
func (p *parser) key() any {
	left := p.text[p.at:]
	switch {
	case strings.HasPrefix(left, "i:"):
		p.at += 2
		return p.integer(';')
	case strings.HasPrefix(left, "s:"):
		p.at += 2
		return p.bytes(`"`, `";`)
	}
	p.expected(p.at, "a key, i: or s:")
	return nil
}

// property splits the name of a property as PHP writes it: the name alone if it is public, else NUL,
// scope, NUL and name.
func property(name string, v any) Property {
	if part := strings.SplitN(name, "\x00", 3); len(part) == 3 && part[0] == "" {
		return Property{part[2], part[1], v}
	}
	return Property{Name: name, Value: v}
}

// reference reads what follows r: or R: and returns the value of that number.
func (p *parser) reference(object bool) any {
	start := p.at
	n := p.integer(';')
	most := int64(len(p.values))
	if p.opaque > 0 { // the class of a C: may have taken any number of numbers
		most = int64(p.opaque)
	}
	if n < 1 || n > most {
		p.fail(start, fmt.Sprintf("value %d", n), fmt.Sprintf("1 to %d, values that are known", most))
		return nil
	}
	v := p.values[n-1]
	switch v.(type) {
	case *Object, Enum, Opaque:
		return v
	}
	if object {
		p.fail(start, fmt.Sprintf("value %d", n), "that of an object")
	}
	return v
}

func (p *parser) integer(end byte) int64 {
	start := p.at
	n, err := strconv.ParseInt(p.until(end), 10, 64)
	if err != nil {
		p.expected(start, "a 64-bit integer")
	}
	return n
}

func (p *parser) float() float64 {
	start := p.at
	text := p.until(';')
	f, err := strconv.ParseFloat(text, 64) // which reads INF, too
	if err != nil && !errors.Is(err, strconv.ErrRange) || strings.Trim(text, "0123456789.+-eEINFA") != "" {
		p.expected(start, "a float")
	}
	return f
}

// bytes reads a length, a colon, and so many bytes between two texts.
func (p *parser) bytes(begin, end string) string {
	n := p.size(len(begin)+len(end), 1)
	p.literal(begin)
	if p.err != nil {
		return ""
	}
	p.at += n
	text := p.text[p.at-n : p.at]
	p.literal(end)
	return text
}

// size reads a number of things and a colon. The bytes left must suffice for so many and for
// others, all of a length of at least least.
func (p *parser) size(others, least int) int {
	start := p.at
	n := p.integer(':')
	if most := max((len(p.text)-p.at)/least-others, 0); p.err == nil && (n < 0 || n > int64(most)) {
		p.fail(start, fmt.Sprintf("the size %d", n), fmt.Sprintf("at most %d, for the bytes that are left", most))
	}
	if p.err != nil {
		return 0
	}
	return int(n)
}

// until returns the text up to the byte end, or the rest, and goes on behind that.
func (p *parser) until(end byte) string {
	text, _, _ := strings.Cut(p.text[p.at:], string(end))
	p.at += len(text)
	p.literal(string(end))
	return text
}

// literal reads a text that must be there.
func (p *parser) literal(text string) {
	if !strings.HasPrefix(p.text[p.at:], text) {
		p.expected(p.at, text)
		return
	}
	p.at += len(text)
}

// expected notes that something else is at an offset.
func (p *parser) expected(at int, want string) {
	found := "the end"
	if at < len(p.text) {
		found = strconv.Quote(p.text[at : at+1])
	}
	p.fail(at, found, want)
}

func (p *parser) fail(at int, found, want string) {
	if p.err == nil {
		p.err = fmt.Errorf("at byte %d is %s, expected %s", at, found, want)
	}
}
