package config

import (
	"maps"
	"strconv"

	"github.com/troupehq/troupe/wire"
	"github.com/troupehq/troupe/wire/goworkers"
)

// The systems that a capsule can say it belongs to.
const (
	wireSidekiq   = "sidekiq"
	wireGoWorkers = "go-workers"
	wireLaravel   = "laravel"
)

// classes reads the map from queue to the class whose handler runs all of its jobs.
func (p *parse) classes(n *node, field string) map[string]string {
	if n.kind != mapping {
		p.bad(n, field, "a map from the name of a queue to a class of handlers")
		return nil
	}
	out := map[string]string{}
	for _, e := range n.entries {
		out[e.key] = p.string(e.value, field+"."+e.key)
	}
	return out
}

// wires refuses what does not fit the wire of a capsule.
func (l *loader) wires(s *Settings, at string) {
	for _, c := range s.Capsules {
		fault := func(key, value, want string) {
			l.faults = append(l.faults, Fault{File: s.Path, Line: c.wireLine, Field: at + c.Name + "." + key, Value: value, Want: want})
		}
		if c.Wire != "" && c.Wire != wireSidekiq && s.fetcher(c) == "basic" {
			fault("wire", strconv.Quote(c.Wire), "sidekiq with fetch: basic, which does not know it")
		}
		if c.Laravel != nil && c.Wire != wireLaravel {
			fault("laravel", "a map", "none without wire: laravel")
		}
		if c.Wire == wireLaravel {
			l.laravel(c, fault)
		}
		if c.Wire != wireGoWorkers {
			if c.Namespace != "" {
				fault("namespace", strconv.Quote(c.Namespace), "none without wire: go-workers")
			}
			if c.Classes != nil {
				fault("classes", "a map", "none without wire: go-workers")
			}
			continue
		}
		for queue, class := range c.Classes {
			if !l.s.handles(class) {
				fault("classes."+queue, strconv.Quote(class), "a class that handlers: has")
			}
		}
	}
}

// laravel fetches what a capsule of Laravel says elsewhere, and checks it.
func (l *loader) laravel(c capsule, fault func(key, value, want string)) {
	if c.Waiters > 0 {
		fault("waiters", strconv.Itoa(c.Waiters), "none with wire: laravel, whose tokens wake one worker each")
	}
	if c.Laravel == nil {
		return
	}
	p := &parse{name: l.s.Path, out: &File{}}
	p.resolve(&c.Laravel.AppKey, "capsules."+c.Name+".laravel.app_key", l.getenv)
	l.faults = append(l.faults, p.faults...)
	if len(p.faults) > 0 {
		return
	}
	if _, err := c.Laravel.wire(); err != nil {
		fault("laravel", "refused", err.Error())
	}
}

// handles reports whether there is a handler of class.
func (s *Settings) handles(class string) bool {
	for _, h := range s.Handlers {
		if h.Class == class {
			return true
		}
	}
	return s.unclear
}

// wireOf is the wire of a capsule: capsules of one namespace share it, and the classes of
// their queues.
func (s *Settings) wireOf(c capsule, made map[string]*wire.Wire) (*wire.Wire, error) {
	if c.Wire == wireLaravel {
		return c.Laravel.wire()
	}
	if c.Wire != wireGoWorkers {
		return nil, nil
	}
	if made[c.Namespace] == nil {
		classes := map[string]string{}
		for _, other := range s.Capsules {
			if other.Wire == c.Wire && other.Namespace == c.Namespace {
				maps.Copy(classes, other.Classes)
			}
		}
		made[c.Namespace] = goworkers.New(goworkers.Options{Namespace: c.Namespace, Classes: classes})
	}
	return made[c.Namespace], nil
}
