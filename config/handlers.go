package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/troupehq/troupe/handler"
)

var (
	handlerKinds = []string{"builtin", "exec"}
	handlerKeys  = append(slices.Clone(handlerKinds), "timeout")
)

const wantHandler = "a map with builtin or exec, like {exec: [/usr/local/bin/thumb, --stdin], timeout: 2m}"

// handlers reads the map from class to handler.
func (p *parse) handlers(n *node, field string) []Handler {
	switch n.kind {
	case null:
		return nil
	case mapping:
	default:
		p.bad(n, field, "a map of handlers by class")
		p.out.unclear = true
		return nil
	}
	out := make([]Handler, 0, len(n.entries))
	for _, e := range n.entries {
		if e.key == "" {
			p.fault(e.line, field, "without a class", "the name of a class")
			continue
		}
		out = append(out, p.handler(e, field+"."+e.key))
	}
	return out
}

func (p *parse) handler(e entry, field string) Handler {
	h := Handler{Class: e.key, line: e.line}
	if e.value.kind != mapping {
		p.bad(e.value, field, wantHandler)
		return h
	}
	var kinds []string
	odd := false
	for _, o := range e.value.entries {
		at := field + "." + o.key
		switch o.key {
		case "builtin":
			kinds = append(kinds, o.key)
			h.Builtin = p.word(o.value, at, handler.Builtins()...)
			if o.value.kind == null {
				p.bad(o.value, at, "one of "+strings.Join(handler.Builtins(), ", "))
			}
		case "exec":
			kinds = append(kinds, o.key)
			h.Exec = p.program(o.value, at)
		case "timeout":
			h.Timeout = p.duration(o.value, at, 0)
		case "http":
			kinds = append(kinds, o.key)
			p.fault(o.line, at, "a kind of handler that this version has not", "builtin or exec")
		default:
			odd = true // perhaps the kind, misspelt
			p.unknown(o.line, at, o.key, handlerKeys)
		}
	}
	if len(kinds) > 1 || len(kinds) == 0 && !odd {
		found := "without a kind"
		if len(kinds) > 1 {
			found = fmt.Sprintf("of %d kinds (%s)", len(kinds), strings.Join(kinds, ", "))
		}
		p.fault(e.line, field, found, "one of "+strings.Join(handlerKinds, ", "))
	}
	return h
}

// program reads [program, argument…]; one text is not split, as no shell is
// involved that would know how.
func (p *parse) program(n *node, field string) []string {
	const want = "a list: [program, argument, …]"
	if n.kind != list || len(n.items) == 0 {
		p.bad(n, field, want)
		return nil
	}
	var out []string
	for i, item := range n.items {
		at := fmt.Sprintf("%s[%d]", field, i)
		switch {
		case item.kind != scalar:
			p.bad(item, at, "a word (quote it if in doubt)")
		case i == 0 && item.text == "":
			p.bad(item, at, "a program")
		case strings.ContainsRune(item.text, 0):
			p.bad(item, at, "text without NUL")
		default:
			out = append(out, item.text)
		}
	}
	return out
}
