package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/troupehq/troupe/internal/words"
	"github.com/troupehq/troupe/supervisor"
)

var strategyNames = []string{"one_for_one", "all_for_one", "rest_for_one"}

const wantStrategy = "a name (one_for_one, all_for_one, rest_for_one), or a map from one with intensity, period, " +
	"backoff, jitter and replace"

const maxIntensity = 1_000_000

// defaultSpec is that of supervisor.Default: what a strategy of the file does
// not say is as it would be without one.
func defaultSpec() supervisor.Spec { return supervisor.Default().Spec() }

// strategySettings reads the value of each key of a strategy. A value that is
// null was not said.
var strategySettings = readers[supervisor.Spec]{
	"intensity": func(p *parse, s *supervisor.Spec, n *node, field string) {
		if n.kind != null {
			if s.Intensity = p.int(n, field, 0, maxIntensity); s.Intensity == 0 {
				s.Intensity = -1 // none
			}
		}
	},
	"period": func(p *parse, s *supervisor.Spec, n *node, field string) {
		if d := p.duration(n, field, 0); d > 0 {
			s.Period = d
		}
	},
	"backoff": func(p *parse, s *supervisor.Spec, n *node, field string) { p.backoff(n, field, &s.Backoff) },
	"jitter": func(p *parse, s *supervisor.Spec, n *node, field string) {
		if n.kind == null {
			return
		}
		f, err := strconv.ParseFloat(n.text, 64)
		if n.kind != scalar || err != nil || !(f >= 0 && f <= 1) {
			p.bad(n, field, "a share from 0 to 1")
			return
		}
		s.Backoff.Jitter = f
	},
	"replace": func(p *parse, s *supervisor.Spec, n *node, field string) { s.Replace = p.bool(n, field) },
}

// strategy reads "one_for_one" or {one_for_one: {intensity: 20, …}}; nil for null.
func (p *parse) strategy(n *node, field string) *strategyEntry {
	s := &strategyEntry{Spec: defaultSpec()}
	switch n.kind {
	case null:
		return nil
	case scalar:
		s.Name = p.word(n, field, strategyNames...)
		return s
	case list:
		p.bad(n, field, wantStrategy)
		return nil
	case mapping:
	}
	if len(n.entries) != 1 {
		p.fault(n.line, field, fmt.Sprintf("a map with %d keys", len(n.entries)), wantStrategy)
		return nil
	}
	e := n.entries[0]
	s.Name, field = e.key, field+"."+e.key
	if !slices.Contains(strategyNames, e.key) {
		p.unknown(e.line, field, e.key, strategyNames)
		return nil
	}
	if !strategySettings.read(p, &s.Spec, e.value, field, "a map with intensity, period, backoff, jitter and replace", p.alien) {
		return nil
	}
	return s
}

// backoff reads "100ms..30s", the same wait each time ("1s"), or 0 for none.
func (p *parse) backoff(n *node, field string, b *supervisor.Backoff) {
	const want = "two durations like 100ms..30s, or one, or 0 for no wait"
	if n.kind == null {
		return
	}
	least, most, ranged := strings.Cut(n.text, "..")
	if !ranged {
		most = least
	}
	if n.kind == scalar && n.text == "0" {
		b.Min, b.Max = -1, 0 // none
		return
	}
	low, err := words.ParseDuration(least)
	high, err2 := words.ParseDuration(most)
	if n.kind != scalar || err != nil || err2 != nil || strings.HasPrefix(most, ".") {
		p.bad(n, field, want)
		return
	}
	if high < low {
		p.bad(n, field, "the shorter wait first: the first restart is immediate, then the wait doubles from the one to the other")
		return
	}
	b.Min, b.Max = low, high
}

// build returns the strategy, the default if there is none.
func (s *strategyEntry) build() (*supervisor.Strategy, error) {
	if s == nil {
		return supervisor.Default(), nil
	}
	var made *supervisor.Strategy
	switch s.Name {
	case "one_for_one":
		made = supervisor.OneForOne(s.Spec)
	case "all_for_one":
		made = supervisor.AllForOne(s.Spec)
	case "rest_for_one":
		made = supervisor.RestForOne(s.Spec)
	default:
		return nil, fmt.Errorf("strategy is %q, expected one of %s", s.Name, strings.Join(strategyNames, ", "))
	}
	return made, made.Validate()
}
