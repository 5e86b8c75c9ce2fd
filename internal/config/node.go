package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	yaml "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	maxFile  = 256 << 10 // bytes; a configuration is a page or two
	maxDepth = 64        // of nesting; the parser recurses, and slowly
)

// flowSymbol is a symbol as key of a flow map, "{:a: 1, :b: 2}": valid YAML, but
// goccy's scanner refuses it. Its colon is of no use here anyway.
var flowSymbol = regexp.MustCompile(`([{,]\s*):(\w+:(?:\s|$))`)

type kind int

const (
	null kind = iota
	scalar
	list
	mapping
)

// node is a value of the file: goccy's tree without anchors, tags and comments,
// and with the line of everything. Aliases share nodes.
type node struct {
	kind    kind
	line    int
	text    string // scalar: without quotes
	quoted  bool   // scalar: certainly a string
	items   []*node
	entries []entry
}

type entry struct {
	key    string
	symbol bool // written with a colon
	line   int
	value  *node
}

// String shows a value in a fault.
func (n *node) String() string {
	switch n.kind {
	case null:
		return "empty"
	case scalar:
		return strconv.Quote(clip(n.text))
	case list:
		if len(n.items) == 0 {
			return "an empty list"
		}
		return "a list"
	default:
		return "a map"
	}
}

// plain is the text of a scalar as Ruby gives it to Sidekiq: a symbol's name.
func (n *node) plain() string {
	if n.quoted {
		return n.text
	}
	return unsymbol(n.text)
}

// number reads a number as Ruby's YAML does, where 0x1F, 0b11, 017 (octal), 1_000
// and 1,000 are whole; in quotes all digits are decimal. Numbers of a file are
// small: a float64 has all of their digits.
func (n *node) number() (f float64, ok bool) {
	if n.kind != scalar {
		return 0, false
	}
	if !n.quoted {
		if i, err := strconv.ParseInt(strings.ReplaceAll(n.text, ",", "_"), 0, 64); err == nil {
			return float64(i), true
		}
	}
	if strings.ContainsAny(n.text, "xXpP_") { // hexadecimal floats are Go's alone
		return 0, false
	}
	f, err := strconv.ParseFloat(n.text, 64)
	return f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
}

// value is what Ruby's YAML makes of n, as JSON has it.
func (n *node) value() any {
	switch n.kind {
	case null:
	case scalar:
		if n.quoted {
			return n.text
		}
		switch strings.ToLower(n.text) {
		case "true", "yes", "on":
			return true
		case "false", "no", "off":
			return false
		}
		if i, err := strconv.ParseInt(strings.ReplaceAll(n.text, ",", "_"), 0, 64); err == nil {
			return i
		}
		if f, ok := n.number(); ok {
			return f
		}
		return n.plain()
	case list:
		out := make([]any, 0, len(n.items))
		for _, item := range n.items {
			out = append(out, item.value())
		}
		return out
	case mapping:
		out := map[string]any{}
		for _, e := range n.entries {
			out[e.key] = e.value.value()
		}
		return out
	}
	return nil
}

func clip(s string) string {
	const most = 80
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// parseYAML returns the root of the one document in text.
func parseYAML(text string, fault func(line int, field, value, want string)) (root *node) {
	root = &node{}
	if line := tooDeep(text); line > 0 {
		fault(line, "nesting", "too deep", fmt.Sprintf("at most %d levels", maxDepth))
		return root
	}
	defer func() {
		// The parser has met its match before; a file must not end the program
		// with a stack trace.
		if v := recover(); v != nil {
			fault(0, "file", "not readable", fmt.Sprintf("YAML (the parser gave up: %v)", v))
		}
	}()
	file, err := parser.ParseBytes([]byte(text), 0, parser.AllowDuplicateMapKey())
	if plain := flowSymbol.ReplaceAllString(text, "$1$2"); err != nil && plain != text {
		if f, again := parser.ParseBytes([]byte(plain), 0, parser.AllowDuplicateMapKey()); again == nil {
			file, err = f, nil
		}
	}
	if err != nil {
		line, reason := 0, err.Error()
		if e, ok := errors.AsType[*yaml.SyntaxError](err); ok {
			reason = e.Message
			if e.Token != nil && e.Token.Position != nil {
				line = e.Token.Position.Line
			}
		}
		fault(line, "syntax", "wrong", "YAML: "+reason)
		return root
	}
	c := &converter{fault: fault, anchors: map[string]*node{}}
	seen := false
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.DirectiveType { // "%YAML 1.1"
			continue
		}
		if seen {
			fault(line(doc.Body), "document", "a second one", "one YAML document")
			break
		}
		root, seen = c.node(doc.Body), true
	}
	return root
}

// tooDeep returns the first line that may nest deeper than maxDepth, 0 for none.
// It looks at the text alone and takes brackets in strings for nesting, too.
func tooDeep(text string) int {
	open, indents := 0, 0
	for i, l := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(l), "#") {
			continue
		}
		for field := range strings.FieldsSeq(l) {
			if field == "-" || field == "?" || field[0] == '!' || field[0] == '&' {
				indents++
			}
			open += strings.Count(field, "[") + strings.Count(field, "{") -
				strings.Count(field, "]") - strings.Count(field, "}")
			open = max(open, 0)
			if open > maxDepth {
				return i + 1
			}
		}
		indents += len(l) - len(strings.TrimLeft(l, " "))
		if indents > 4*maxDepth {
			return i + 1
		}
		indents = 0
	}
	return 0
}

type converter struct {
	fault   func(line int, field, value, want string)
	anchors map[string]*node
}

func line(n ast.Node) int {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 0
}

func (c *converter) node(n ast.Node) *node {
	if n == nil {
		return &node{}
	}
	out := &node{line: line(n)}
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.StringNode:
		t := n.GetToken().Type
		out.kind, out.text = scalar, n.Value
		out.quoted = t == token.SingleQuoteType || t == token.DoubleQuoteType
	case *ast.LiteralNode:
		out.kind, out.text, out.quoted = scalar, n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		out.kind, out.text = scalar, n.GetToken().Value
	case *ast.SequenceNode:
		out.kind = list
		for _, v := range n.Values {
			out.items = append(out.items, c.node(v))
		}
	case *ast.MappingNode:
		out.kind = mapping
		c.entries(out, n.Values)
	case *ast.MappingValueNode:
		out.kind = mapping
		c.entries(out, []*ast.MappingValueNode{n})
	case *ast.TagNode: // !ruby/symbol and the like: the value is what counts
		return c.node(n.Value)
	case *ast.AnchorNode:
		v := c.node(n.Value)
		c.anchors[n.Name.String()] = v // only now: no cycles
		return v
	case *ast.AliasNode:
		name := n.Value.String()
		if v, ok := c.anchors[name]; ok {
			return v
		}
		c.fault(out.line, "*"+name, "unknown", "an anchor &"+name+" above")
	default:
		c.fault(out.line, "value", fmt.Sprintf("a %s", n.Type()), "a scalar, a list or a map")
	}
	return out
}

func (c *converter) entries(out *node, values []*ast.MappingValueNode) {
	given := map[string]int{}
	var merged []entry
	for _, v := range values {
		if _, ok := v.Key.(*ast.MergeKeyNode); ok {
			merged = append(merged, c.merge(v)...)
			continue
		}
		k := c.key(v.Key)
		if first, ok := given[k.key]; ok {
			c.fault(k.line, k.key, "given twice", fmt.Sprintf("it once (first on line %d)", first))
			continue
		}
		given[k.key] = k.line
		k.value = c.node(v.Value)
		if k.value.line == 0 {
			k.value.line = k.line
		}
		out.entries = append(out.entries, k)
	}
	for _, e := range merged { // explicit keys win, then the first merged
		if _, ok := given[e.key]; !ok {
			given[e.key] = e.line
			out.entries = append(out.entries, e)
		}
	}
}

// merge returns the entries that "<<: *anchor" or "<<: [*a, *b]" brings.
func (c *converter) merge(v *ast.MappingValueNode) (out []entry) {
	from := c.node(v.Value)
	maps := []*node{from}
	if from.kind == list {
		maps = from.items
	}
	for _, m := range maps {
		if m.kind == null { // also an unknown anchor, which has its fault
			continue
		}
		if m.kind != mapping {
			c.fault(line(v.Key), "<<", m.String(), "an alias of a map")
			continue
		}
		out = append(out, m.entries...)
	}
	return out
}

// key reads a key, without the colon that makes it a symbol in Ruby.
func (c *converter) key(k ast.MapKeyNode) entry {
	n := c.node(k)
	if m, ok := k.(*ast.MappingKeyNode); ok { // "? key"
		n = c.node(m.Value)
	}
	if n.kind != scalar {
		c.fault(line(k), "key", n.String(), "a word")
	}
	name := unsymbol(n.text)
	return entry{key: name, symbol: name != n.text, line: line(k)}
}

// unsymbol takes the colon off a Ruby symbol, and the quotes of :"name"; "::Job"
// is a constant.
func unsymbol(s string) string {
	name, ok := strings.CutPrefix(s, ":")
	if !ok || strings.HasPrefix(name, ":") {
		return s
	}
	for _, quote := range []string{`"`, "'"} {
		if inner, ok := strings.CutPrefix(name, quote); ok && strings.HasSuffix(inner, quote) {
			return strings.TrimSuffix(inner, quote)
		}
	}
	return name
}
