package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/troupehq/troupe"
)

const wantUnique = "true, or a map like {by: [0], until: done, for: 1h}"

// uniqueSettings reads the value of each key of unique.
var uniqueSettings = readers[troupe.Unique]{
	"across": func(p *parse, u *troupe.Unique, n *node, field string) { u.Across = p.bool(n, field) },
	"by":     func(p *parse, u *troupe.Unique, n *node, field string) { u.By = p.places(n, field) },
	"for": func(p *parse, u *troupe.Unique, n *node, field string) {
		u.For = p.duration(n, field, time.Millisecond)
	},
	"until": func(p *parse, u *troupe.Unique, n *node, field string) {
		until := p.word(n, field, "done", "start", "period")
		for v := troupe.UntilDone; v <= troupe.UntilPeriod; v++ {
			if v.String() == until {
				u.Until = v
			}
		}
	},
}

// unique reads which jobs of a class are the same; nil if they are not unique.
func (p *parse) unique(n *node, field string) *troupe.Unique {
	switch {
	case n.kind == null:
		return nil
	case n.kind == scalar && strings.EqualFold(n.text, "true"):
		return new(troupe.Unique)
	case n.kind != mapping:
		p.bad(n, field, wantUnique)
		return nil
	}
	u := new(troupe.Unique)
	uniqueSettings.read(p, u, n, field, wantUnique, func(e entry, at string, known []string) { p.unknown(e.line, at, e.key, known) })
	if u.Until == troupe.UntilPeriod && u.For == 0 {
		p.fault(n.line, field+".for", "missing", "the period of until: period")
	}
	return u
}

// places reads a list of places of arguments: 0, 0.id, id.
func (p *parse) places(n *node, field string) (out []string) {
	if n.kind != list || len(n.items) == 0 {
		p.bad(n, field, "a list of places of arguments, like [0, 1.id]")
		return nil
	}
	for i, item := range n.items {
		if item.kind != scalar || item.text == "" {
			p.bad(item, fmt.Sprintf("%s[%d]", field, i), "a place of an argument, like 0 or 1.id")
			continue
		}
		out = append(out, item.text)
	}
	return out
}

// Unique returns which jobs of the classes with a handler are unique, by class.
func (s *Settings) Unique() map[string]troupe.Unique {
	all := map[string]troupe.Unique{}
	for _, h := range s.Handlers {
		if h.Unique != nil {
			all[h.Class] = *h.Unique
		}
	}
	return all
}

// uniqueText is what a summary says of u.
func uniqueText(u *troupe.Unique) string {
	text := ", unique until " + u.Until.String()
	if len(u.By) > 0 {
		text += " by " + strings.Join(u.By, ", ")
	}
	if u.For > 0 {
		text += fmt.Sprintf(" for %s at most", u.For)
	}
	if u.Across {
		text += " across queues"
	}
	return text
}
