package config

import (
	"fmt"
	"math"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/limits"
)

// poisonSettings reads the value of each key of poison.
var poisonSettings = readers[actors.Poison]{
	"recoveries": func(p *parse, out *actors.Poison, n *node, field string) { out.Recoveries = p.orNone(n, field) },
	"suspect":    func(p *parse, out *actors.Poison, n *node, field string) { out.Suspect = p.orNone(n, field) },
	"within":     func(p *parse, out *actors.Poison, n *node, field string) { out.Within = p.duration(n, field, 0) },
}

// orNone reads a number of which 0 means none, written -1 in Go.
func (p *parse) orNone(n *node, field string) int {
	v := p.int(n, field, 0, math.MaxInt32)
	if v == 0 && n.kind == scalar && n.text == "0" {
		return -1
	}
	return v
}

func (p *parse) poison(n *node, field string) (out actors.Poison) {
	poisonSettings.read(p, &out, n, field, "a map like {recoveries: 3, within: 72h}", p.alien)
	return out
}

const wantRecovery = "same, dead, {queue: NAME} or {delay: 1m}"

// recovery reads where the jobs of a class go when their process has died.
func (p *parse) recovery(n *node, field string) (out troupe.Recovery) {
	switch n.kind {
	case null:
		return out
	case scalar:
		switch n.text {
		case "same":
		case "dead":
			out.Dead = true
		default:
			p.bad(n, field, wantRecovery)
		}
		return out
	case mapping:
	default:
		p.bad(n, field, wantRecovery)
		return out
	}
	for _, e := range n.entries {
		at := field + "." + e.key
		switch e.key {
		case "queue":
			if out.Queue = p.string(e.value, at); out.Queue == "" {
				p.bad(e.value, at, "the name of a queue")
			}
		case "delay":
			out.Delay = p.duration(e.value, at, 0)
		default:
			p.unknown(e.line, at, e.key, []string{"delay", "queue"})
		}
	}
	if len(n.entries) != 1 {
		p.bad(n, field, wantRecovery)
	}
	return out
}

// poisonText is like "3 recoveries in 72h0m0s, suspect after 2".
func poisonText(p actors.Poison) string {
	recoveries, within, suspect := limits.Poison(p.Recoveries, p.Within, p.Suspect)
	switch {
	case recoveries < 0:
		return "never"
	case suspect < 0:
		return fmt.Sprintf("after %d recoveries in %s", recoveries, within)
	}
	return fmt.Sprintf("after %d recoveries in %s, suspect after %d", recoveries, within, suspect)
}

// recoveryText is like ", recovered into queue big"; "" for the same queue.
func recoveryText(r troupe.Recovery) string {
	switch {
	case r.Dead:
		return ", dead when recovered"
	case r.Queue != "":
		return ", recovered into queue " + r.Queue
	case r.Delay > 0:
		return fmt.Sprintf(", recovered after %s", r.Delay)
	}
	return ""
}
