package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupehq/troupe/internal/handlerconf"
)

// handlerKinds are the keys of a handler of which it has one.
var handlerKinds = []string{"builtin", "exec", "http"}

const wantHandler = "a map with builtin, exec or http, like {exec: [/usr/local/bin/thumb, --stdin], timeout: 2m}"

// handlerSettings reads the value of each key of a handler.
var handlerSettings = readers[handlerEntry]{
	"builtin": func(p *parse, h *handlerEntry, n *node, field string) {
		h.Builtin = p.word(n, field, handlerconf.Builtins()...)
		if n.kind == null {
			p.bad(n, field, "one of "+strings.Join(handlerconf.Builtins(), ", "))
		}
	},
	"exec":    func(p *parse, h *handlerEntry, n *node, field string) { h.Exec = p.program(n, field) },
	"http":    func(p *parse, h *handlerEntry, n *node, field string) { h.HTTP = p.http(n, field) },
	"env":     func(p *parse, h *handlerEntry, n *node, field string) { h.Env = p.env(n, field) },
	"timeout": func(p *parse, h *handlerEntry, n *node, field string) { h.Timeout = p.duration(n, field, 0) },
	"recovery": func(p *parse, h *handlerEntry, n *node, field string) {
		h.Recovery = p.recovery(n, field)
	},
	"take":       func(p *parse, h *handlerEntry, n *node, field string) { h.Take = p.share(n, field) },
	"rest_queue": func(p *parse, h *handlerEntry, n *node, field string) { h.RestQueue = p.otherQueue(n, field) },
	"expire_after": func(p *parse, h *handlerEntry, n *node, field string) {
		h.ExpireAfter = p.duration(n, field, time.Second)
	},
	"unique": func(p *parse, h *handlerEntry, n *node, field string) { h.Unique = p.unique(n, field) },
	"limits": func(p *parse, h *handlerEntry, n *node, field string) {
		h.Limits = p.names(n, field, "the name of a limit")
	},
	"result": func(p *parse, h *handlerEntry, n *node, field string) {
		h.Result = p.word(n, field, "stdout") != ""
	},
	"result_for": func(p *parse, h *handlerEntry, n *node, field string) {
		h.ResultFor = p.duration(n, field, time.Millisecond)
	},
	"drop_expired": func(p *parse, h *handlerEntry, n *node, field string) { h.DropExpired = p.bool(n, field) },
}

// handlers reads the map from class to handler.
func (p *parse) handlers(n *node, field string) []handlerEntry {
	switch n.kind {
	case null:
		return nil
	case mapping:
	default:
		p.bad(n, field, "a map of handlers by class")
		p.out.unclear = true
		return nil
	}
	out := make([]handlerEntry, 0, len(n.entries))
	for _, e := range n.entries {
		if e.key == "" {
			p.fault(e.line, field, "without a class", "the name of a class")
			continue
		}
		out = append(out, p.handler(e, field+"."+e.key))
	}
	return out
}

func (p *parse) handler(e entry, field string) handlerEntry {
	h := handlerEntry{Class: e.key, line: e.line}
	if e.value.kind != mapping {
		p.bad(e.value, field, wantHandler)
		return h
	}
	var kinds []string
	odd := false
	for _, o := range e.value.entries {
		at := field + "." + o.key
		read := handlerSettings[o.key]
		if read == nil {
			odd = true // perhaps the kind, misspelt
			p.unknown(o.line, at, o.key, handlerSettings.keys())
			continue
		}
		if slices.Contains(handlerKinds, o.key) {
			kinds = append(kinds, o.key)
		}
		read(p, &h, o.value, at)
	}
	if len(kinds) > 1 || len(kinds) == 0 && !odd {
		found := "without a kind"
		if len(kinds) > 1 {
			found = fmt.Sprintf("of %d kinds (%s)", len(kinds), strings.Join(kinds, ", "))
		}
		p.fault(e.line, field, found, "one of "+strings.Join(handlerKinds, ", "))
	}
	if _, set := h.Take.Percent(); h.RestQueue != "" && !set && !odd {
		p.fault(e.line, field+".rest_queue", strconv.Quote(h.RestQueue), "it beside take only")
	}
	if h.Result && len(kinds) > 0 && !slices.Contains(kinds, "exec") {
		p.fault(e.line, field+".result", "beside "+kinds[0], "it beside exec: only programs have a stdout")
	}
	if len(h.Env) > 0 && len(kinds) > 0 && !slices.Contains(kinds, "exec") {
		p.fault(h.Env[0].line, field+".env", "beside "+kinds[0], "it beside exec: only programs have an environment")
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
