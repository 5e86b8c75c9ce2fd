package config

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/words"
)

const (
	wantLimits    = "a map of limits by name"
	wantLimit     = "a number, how many jobs of the queue of that name run at once, or a map like {at_once: 5, classes: [A]} or {rate: 10/1m, queues: [a]}"
	wantLimitName = "a name of 1 to 100 letters, digits and _ . -"
	maxLimitName  = 100
)

// limitEntry is one entry of limits:.
type limitEntry struct {
	troupe.Limit
	Key     string // in the file; Name may differ from it
	Queues  []string
	Classes []string // those that the entry itself names
	Plain   bool     // a number, as sidekiq-limit_fetch has it

	line int
}

// jobLimitSettings reads the value of each key of a limit.
var jobLimitSettings = readers[limitEntry]{
	"at_once": func(p *parse, l *limitEntry, n *node, field string) { l.AtOnce = p.int(n, field, 1, math.MaxInt32) },
	"rate": func(p *parse, l *limitEntry, n *node, field string) {
		if n.kind == null {
			return
		}
		var err error
		l.Rate, l.Per, err = words.ParseRate(n.plain())
		if n.kind != scalar || err != nil || (troupe.Limit{Name: "a", Rate: l.Rate, Per: l.Per}).Validate() != nil {
			p.bad(n, field, words.WantRate)
			l.Rate, l.Per = 1, 0
		}
	},
	"burst": func(p *parse, l *limitEntry, n *node, field string) { l.Burst = p.int(n, field, 1, math.MaxInt32) },
	"by": func(p *parse, l *limitEntry, n *node, field string) {
		if n.kind == null {
			return
		}
		if l.By = n.plain(); n.kind != scalar || l.By == "" {
			p.bad(n, field, "a place of an argument, like 0 or 0.account_id")
		}
	},
	"breaker": func(p *parse, l *limitEntry, n *node, field string) {
		if n.kind == null {
			return
		}
		l.Breaker = &troupe.Breaker{}
		breakerSettings.read(p, l.Breaker, n, field, "a map like {failures: 5, rest: 1m}", p.alien)
	},
	"throttled": func(p *parse, l *limitEntry, n *node, field string) { l.Throttled = p.bool(n, field) },
	"queues": func(p *parse, l *limitEntry, n *node, field string) {
		l.Queues = p.names(n, field, "the name of a queue")
	},
	"classes": func(p *parse, l *limitEntry, n *node, field string) {
		l.Classes = p.names(n, field, "the name of a class")
	},
}

// breakerSettings reads the value of each key of a breaker.
var breakerSettings = readers[troupe.Breaker]{
	"failures": func(p *parse, b *troupe.Breaker, n *node, field string) {
		b.Failures = p.int(n, field, 0, math.MaxInt32)
	},
	"rest": func(p *parse, b *troupe.Breaker, n *node, field string) {
		b.Rest = p.duration(n, field, time.Millisecond)
		if b.Rest > 0 && (troupe.Limit{Name: "a", Breaker: b}).Validate() != nil {
			p.bad(n, field, "a time of at most a year")
			b.Rest = 0
		}
	},
}

// names reads a list of names, or one; each once.
func (p *parse) names(n *node, field, what string) (out []string) {
	for i, name := range p.strings(n, field) {
		at := n
		if n.kind == list && i < len(n.items) {
			at = n.items[i]
		}
		switch {
		case name == "":
			p.bad(at, field, what)
		case slices.Contains(out, name):
			p.fault(at.line, field, strconv.Quote(clip(name))+" twice", "it once")
		default:
			out = append(out, name)
		}
	}
	return out
}

// limits reads the limits of jobs: numbers are those of queues, as sidekiq-limit_fetch has them.
func (p *parse) limits(n *node, field string) (out []limitEntry) {
	switch n.kind {
	case null:
		return nil
	case mapping:
	default:
		p.bad(n, field, wantLimits)
		return nil
	}
	given := map[string]string{} // from a name to the key that has it
	for _, e := range n.entries {
		at := field + "." + e.key
		l := limitEntry{Limit: troupe.Limit{Name: e.key}, Key: e.key, line: e.line}
		switch e.value.kind {
		case null:
			continue
		case mapping:
			jobLimitSettings.read(p, &l, e.value, at, wantLimit, p.alien)
			p.checkLimit(&l, e.value, at)
		default:
			number, ok := e.value.number()
			if !ok || number != math.Trunc(number) || number < 1 || number > math.MaxInt32 {
				p.bad(e.value, at, wantLimit)
				continue
			}
			l.Plain, l.AtOnce, l.Queues, l.Name = true, int(number), []string{e.key}, limitName(e.key)
		}
		if other, ok := given[l.Name]; ok {
			p.fault(e.line, at, fmt.Sprintf("named %q", l.Name), fmt.Sprintf("a name that %s.%s has not: write it as a map with at_once and queues, under another name", field, other))
		}
		given[l.Name] = e.key
		out = append(out, l)
	}
	return out
}

// limitName makes the name of a queue that of a limit.
func limitName(queue string) string {
	name := strings.Map(func(r rune) rune {
		if r < 0x80 && strings.ContainsRune("_.-", r) || '0' <= r && r <= '9' || 'a' <= r|' ' && r|' ' <= 'z' {
			return r
		}
		return '_'
	}, queue)
	return name[:min(len(name), maxLimitName)]
}

// checkLimit finds the faults of a limit's keys together.
func (p *parse) checkLimit(l *limitEntry, n *node, field string) {
	said := func(key string) bool {
		return slices.ContainsFunc(n.entries, func(e entry) bool { return e.key == key && e.value.kind != null })
	}
	if (troupe.Limit{Name: l.Name, AtOnce: 1, Throttled: l.Throttled}).Validate() != nil {
		want := wantLimitName
		if l.Throttled {
			want += " :"
		}
		p.fault(l.line, field, fmt.Sprintf("named %q", clip(l.Name)), want)
	}
	switch {
	case said("at_once") && said("rate"):
		p.fault(l.line, field, "of two kinds (at_once, rate)", "one of them; a class or a queue may have several limits")
	case !said("at_once") && !said("rate") && !said("breaker"):
		p.fault(l.line, field, "without a kind", "at_once, rate or breaker")
	case said("burst") && !said("rate"):
		p.fault(l.line, field+".burst", strconv.Itoa(l.Burst), "it beside rate only")
	case l.Throttled && said("breaker"):
		p.fault(l.line, field+".throttled", "true", "it without breaker: the gem knows none")
	case l.Throttled && said("rate"):
		p.fault(l.line, field+".throttled", "true", "it beside at_once only: the gem counts its rates in another way")
	}
}

// limits finds the faults of limits and handlers together.
func (l *loader) limits() {
	p := &parse{name: l.s.Path, out: &File{}}
	var classes []string
	for _, h := range l.s.Handlers {
		classes = append(classes, h.Class)
		for _, key := range h.Limits {
			field := "handlers." + h.Class + ".limits"
			switch i := slices.IndexFunc(l.s.JobLimits, func(e limitEntry) bool { return e.Key == key }); {
			case i < 0:
				var known []string
				for _, e := range l.s.JobLimits {
					known = append(known, e.Key)
				}
				want := "the name of a limit under limits:"
				if len(known) > 0 {
					want = words.OneOf(key, known...)
				}
				p.fault(h.line, field, strconv.Quote(clip(key)), want)
			case slices.Contains(l.s.JobLimits[i].Classes, h.Class):
				p.fault(h.line, field, strconv.Quote(clip(key)), "it here or in limits."+key+".classes, not twice")
			}
		}
	}
	for _, e := range l.s.JobLimits {
		field := "limits." + e.Key
		for _, class := range e.Classes {
			if !slices.Contains(classes, class) && !l.s.unclear {
				p.fault(e.line, field+".classes", strconv.Quote(clip(class)), "a class that has a handler under handlers:")
			}
		}
		if len(e.Queues) == 0 && len(l.s.limited(e)) == 0 && !l.s.unclear {
			p.fault(e.line, field, "of no job", "queues or classes in it, or a handler with limits: ["+e.Key+"]")
		}
	}
	l.faults = append(l.faults, p.faults...)
}

// keepLimits refuses limits where they cannot be kept.
func (l *loader) keepLimits(s *Settings) {
	for _, e := range s.JobLimits {
		field := "limits." + e.Key
		fault := func(field, value, want string) {
			l.faults = append(l.faults, Fault{File: l.s.Path, Line: e.line, Field: field, Value: value, Want: want})
		}
		if e.Throttled && redisconn.IsCluster(s.RedisURL) {
			fault(field+".throttled", "true", "false on a Redis Cluster")
		}
		for _, c := range s.Capsules {
			switch {
			case c.Wire != "" && c.Wire != wireSidekiq:
				fault(field, "given beside the capsule "+c.Name+" with wire: "+c.Wire, "no limits in its daemon: they are for jobs of Sidekiq's wire")
			case s.fetcher(c) == "basic":
				fault(field, "given beside fetch: basic of the capsule "+c.Name, "fetch: reliable, which can keep it")
			}
		}
	}
}

// limited are the classes that a limit is for.
func (s *Settings) limited(l limitEntry) []string {
	out := slices.Clone(l.Classes)
	for _, h := range s.Handlers {
		if slices.Contains(h.Limits, l.Key) && !slices.Contains(out, h.Class) {
			out = append(out, h.Class)
		}
	}
	return out
}

// limitsOf are the limits of a class.
func (s *Settings) limitsOf(class string) (out []troupe.Limit) {
	for _, l := range s.JobLimits {
		if slices.Contains(s.limited(l), class) {
			out = append(out, l.Limit)
		}
	}
	return out
}

// queueLimits are those of queues, by the name of the queue.
func (s *Settings) queueLimits() map[string][]troupe.Limit {
	out := map[string][]troupe.Limit{}
	for _, l := range s.JobLimits {
		for _, queue := range l.Queues {
			out[queue] = append(out[queue], l.Limit)
		}
	}
	return out
}

// limitText is what a summary says of a limit.
func (s *Settings) limitText(l limitEntry) string {
	var b strings.Builder
	if l.AtOnce > 0 {
		fmt.Fprintf(&b, "%d at once", l.AtOnce)
	} else if l.Rate > 0 {
		fmt.Fprintf(&b, "%d in %s", l.Rate, cmp.Or(l.Per, time.Second))
	} else {
		b.WriteString("any number")
	}
	if l.Burst > 0 {
		fmt.Fprintf(&b, ", %d together after a pause", l.Burst)
	}
	if l.By != "" {
		b.WriteString(", by " + l.By)
	}
	if l.Breaker != nil {
		fmt.Fprintf(&b, ", rests for %s after %d failures in a row", cmp.Or(l.Breaker.Rest, limits.Rest), l.Breaker.Failures)
	}
	if l.Throttled {
		b.WriteString(", together with sidekiq-throttled")
	}
	for _, of := range []struct {
		what  string
		names []string
	}{{"class", s.limited(l)}, {"queue", l.Queues}} {
		if len(of.names) > 0 {
			b.WriteString(", " + of.what + " " + strings.Join(of.names, ", "))
		}
	}
	if idle := s.notTaken(l.Queues); len(idle) > 0 {
		b.WriteString(" (no capsule here takes from " + strings.Join(idle, ", ") + ")")
	}
	if l.Plain {
		b.WriteString("; as in sidekiq-limit_fetch, but jobs that Ruby runs do not count")
	}
	return b.String()
}

// notTaken are those of queues that no capsule takes from.
func (s *Settings) notTaken(queues []string) (out []string) {
	taken := map[string]bool{}
	trees := []*Settings{s}
	for _, tree := range s.Trees {
		trees = append(trees, tree.Settings)
	}
	for _, tree := range trees {
		for _, c := range tree.Capsules {
			if c.Queues == nil {
				taken["default"] = true
				continue
			}
			for name := range maps.Keys(c.Queues.List().Weights()) {
				taken[name] = true
			}
		}
	}
	for _, queue := range queues {
		if !taken[queue] {
			out = append(out, queue)
		}
	}
	return out
}
