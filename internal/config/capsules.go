package config

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/troupehq/troupe/internal/limits"
)

var (
	capsuleName = regexp.MustCompile(`^[A-Za-z0-9_.:-]+$`)
	// reservedNames are the other actors beside the capsules' managers.
	reservedNames = []string{"heartbeat", "poller", "rescuer"}
)

const minFetchBytes = 1 << 10

// defaultCapsule is the one that the top level's concurrency and queues describe.
const defaultCapsule = "default"

// capsuleSettings reads the value of each key of a capsule.
var capsuleSettings = readers[capsule]{
	"name": func(*parse, *capsule, *node, string) {}, // see nameOf
	"concurrency": func(p *parse, c *capsule, n *node, field string) {
		c.Concurrency = p.int(n, field, 1, limits.MaxConcurrency)
	},
	"queues": func(p *parse, c *capsule, n *node, field string) { c.Queues = p.queues(n, field) },
	"fetch":  func(p *parse, c *capsule, n *node, field string) { c.Fetch = p.word(n, field, fetchers...) },
	"wire": func(p *parse, c *capsule, n *node, field string) {
		c.Wire, c.wireLine = p.word(n, field, wireSidekiq, wireGoWorkers, wireLaravel), n.line
	},
	"namespace": func(p *parse, c *capsule, n *node, field string) {
		c.Namespace, c.wireLine = p.string(n, field), n.line
	},
	"classes": func(p *parse, c *capsule, n *node, field string) {
		c.Classes, c.wireLine = p.classes(n, field), n.line
	},
	"laravel": func(p *parse, c *capsule, n *node, field string) {
		c.Laravel, c.wireLine = &laravelEntry{}, n.line
		laravelSettings.read(p, c.Laravel, n, field, "a map with prefix and the like", p.alien)
	},
	"unknown": func(p *parse, c *capsule, n *node, field string) {
		c.Unknown, c.unknownLine = p.policy(n, field), n.line
	},
	"waiters": func(p *parse, c *capsule, n *node, field string) {
		c.Waiters = p.int(n, field, 0, limits.MaxWaiters)
		c.waitersLine = n.line
	},
	"fetch_bytes": func(p *parse, c *capsule, n *node, field string) {
		c.FetchBytes = p.int(n, field, minFetchBytes, limits.MaxFetchBytes)
	},
	"max_unresponsive": func(p *parse, c *capsule, n *node, field string) {
		c.MaxUnresponsive = p.int(n, field, 0, limits.MaxConcurrency)
	},
	"strategy": func(p *parse, c *capsule, n *node, field string) {
		c.Strategy = p.strategy(n, field)
	},
}

// capsules reads Sidekiq's form, a map by name, or a list of maps with a name.
func (p *parse) capsules(n *node, field string) []capsule {
	var out []capsule
	p.named(n, field, "capsule", "a map with name, concurrency and queues", reservedNames, func(name string, n *node, field string) {
		out = append(out, p.capsule(name, n, field))
	})
	return out
}

// named reads a map by name, or a list of maps of this form. Each has a name of its own, and none that is reserved.
func (p *parse) named(n *node, field, what, form string, reserved []string, each func(name string, n *node, field string)) {
	seen := map[string]bool{}
	add := func(name string, n *node, field string) {
		switch {
		case !capsuleName.MatchString(name):
			p.fault(n.line, field, fmt.Sprintf("named %q", clip(name)), "a name of letters, digits and _ . : -")
		case slices.Contains(reserved, name):
			p.fault(n.line, field, fmt.Sprintf("named %q", name), "a name that is not the daemon's own")
		case seen[name]:
			p.fault(n.line, field, fmt.Sprintf("named %q", name), "a name that no other "+what+" has")
		}
		seen[name] = true
		each(name, n, field)
	}
	switch n.kind {
	case null:
	case mapping:
		for _, e := range n.entries {
			add(e.key, e.value, field+"."+e.key)
		}
	case list:
		for i, item := range n.items {
			at := fmt.Sprintf("%s[%d]", field, i)
			if item.kind != mapping {
				p.bad(item, at, form)
				continue
			}
			at, name := p.nameOf(item, field, at)
			add(name, item, at)
		}
	default:
		p.bad(n, field, "a map of "+what+"s by name, or a list of them")
	}
}

// nameOf returns the name of an entry of a list, and a field that shows it.
func (p *parse) nameOf(n *node, list, at string) (field, name string) {
	for _, e := range n.entries {
		if e.key == "name" && e.value.kind == scalar && e.value.text != "" {
			name = e.value.plain()
			return list + "." + name, name
		}
	}
	p.fault(n.line, at+".name", "missing", "a name")
	return at, "unnamed"
}

func (p *parse) capsule(name string, n *node, field string) capsule {
	c := capsule{Name: name}
	capsuleSettings.read(p, &c, n, field, "a map with concurrency and queues", p.stray)
	return c
}
