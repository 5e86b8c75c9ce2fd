package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/keys"
)

const (
	wantUnknown = "fail, leave or {queue: NAME}"
	wantShare   = "a percentage from 0% to 100%, like 10%"
)

// policy reads what becomes of jobs whose class has no handler; nil where it is not said.
func (p *parse) policy(n *node, field string) *actors.Unknown {
	var out actors.Unknown
	switch {
	case n.kind == null:
		return nil
	case n.kind == scalar && n.text == "fail":
	case n.kind == scalar && n.text == "leave":
		out.Leave = true
	case n.kind == mapping && len(n.entries) == 1 && n.entries[0].key == "queue":
		out.Queue = p.otherQueue(n.entries[0].value, field+".queue")
	default:
		p.bad(n, field, wantUnknown)
	}
	return &out
}

// otherQueue reads the name of a queue that jobs are handed over to.
func (p *parse) otherQueue(n *node, field string) string {
	name := p.string(n, field)
	if n.kind == scalar && (name == "" || !utf8.ValidString(name) || strings.HasSuffix(name, keys.SuspectsSuffix)) || n.kind == null {
		p.bad(n, field, "the name of a queue, in UTF-8, that does not end with "+keys.SuspectsSuffix)
		return ""
	}
	return name
}

// share reads a percentage.
func (p *parse) share(n *node, field string) (out troupe.Share) {
	if n.kind == null {
		return out
	}
	number, ok := strings.CutSuffix(strings.TrimSpace(n.plain()), "%")
	percent, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !ok || err != nil || math.IsNaN(percent) || percent < 0 || percent > 100 {
		p.bad(n, field, wantShare)
		return out
	}
	return troupe.Percent(percent)
}

// unknownOf is what becomes of the jobs of unknown classes in a capsule.
func (s *Settings) unknownOf(c capsule) actors.Unknown {
	switch {
	case c.Unknown != nil:
		return *c.Unknown
	case s.Unknown != nil:
		return *s.Unknown
	}
	return actors.Unknown{}
}

// shares tells whether a share of the jobs of a class is run, and the others are to go elsewhere.
func (h handlerEntry) shares() bool {
	percent, _ := h.Take.Percent()
	return percent < 100
}

// unknown refuses queues to which jobs cannot be handed over.
func (l *loader) unknown(s *Settings, at string) {
	for _, c := range s.Capsules {
		u := s.unknownOf(c)
		fault := func(line int, field, value, want string) {
			l.faults = append(l.faults, Fault{File: l.s.Path, Line: line, Field: field, Value: value, Want: want})
		}
		field, line := at+c.Name+".unknown", c.unknownLine
		if c.Unknown == nil {
			field, line = "unknown", s.unknownLine
		}
		php := c.Wire == wireLaravel
		switch {
		case u == actors.Unknown{}:
		case php:
			fault(line, field, "given for the capsule "+c.Name, "fail in a capsule of Laravel: its jobs stay in their queue, and each fetch of one counts as an attempt")
		case l.s.hasAny():
			fault(line, field, "given", `none beside the handler "*", with which no class is without a handler`)
		case u.Queue != "" && s.takes(c, u.Queue) != "":
			fault(line, field+".queue", strconv.Quote(u.Queue), "a queue that this daemon does not take from (capsule "+s.takes(c, u.Queue)+" does): jobs would circle")
		}
		for _, h := range l.s.Handlers {
			field := "handlers." + h.Class
			switch {
			case !h.shares():
			case php:
				fault(h.line, field+".take", h.takeText(), "none beside a capsule of Laravel ("+c.Name+"), whose jobs stay in their queue: give that a daemon of its own")
			case h.RestQueue == "" && u.Queue == "":
				fault(h.line, field+".take", h.takeText(), "a rest_queue beside it, or unknown: {queue: NAME} in the capsule "+c.Name+", for the other jobs")
			case h.RestQueue != "" && s.takes(c, h.RestQueue) != "":
				fault(h.line, field+".rest_queue", strconv.Quote(h.RestQueue), "a queue that this daemon does not take from (capsule "+s.takes(c, h.RestQueue)+" does): jobs would circle")
			}
		}
	}
}

// hasAny tells whether there is a handler for all classes.
func (s *Settings) hasAny() bool {
	for _, h := range s.Handlers {
		if h.Class == troupe.AnyClass {
			return true
		}
	}
	return false
}

// takes is the capsule of the system of c that takes from a queue; "" if none does.
func (s *Settings) takes(c capsule, queue string) string {
	for _, other := range s.Capsules {
		if other.system() != c.system() {
			continue
		}
		queues := other.Queues
		if queues == nil {
			queues = fetch.Strict{"default"}
		}
		if slices.Contains(queues.List().Names(), queue) {
			return other.Name
		}
	}
	return ""
}

// system names the system of the capsule. A queue of the same name in another system is another queue.
func (c capsule) system() string {
	if c.Wire == wireLaravel {
		return fmt.Sprintf("%s %+v", c.Wire, c.Laravel)
	}
	return c.Namespace // one without a namespace has the keys of Sidekiq
}

// unknownText is like ", unknown classes into the queue ruby"; "" where they fail.
func unknownText(u actors.Unknown) string {
	switch {
	case u.Queue != "":
		return ", unknown classes handed over to the queue " + u.Queue
	case u.Leave:
		return ", unknown classes left in their queue"
	}
	return ""
}

// takeText is like "10%".
func (h handlerEntry) takeText() string {
	percent, _ := h.Take.Percent()
	return strconv.FormatFloat(percent, 'f', -1, 64) + "%"
}
