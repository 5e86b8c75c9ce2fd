package fleet

import (
	"slices"
	"strings"
)

// Groups are what processes can be grouped by, and chosen: how each is told of one.
var Groups = map[string]func(p *Process) string{
	"tag":     func(p *Process) string { return p.Tag },
	"version": func(p *Process) string { return p.Version },
	"host":    (*Process).Host,
}

// Host is the name of the host that it runs on, with which its identity begins.
func (p *Process) Host() string {
	host, _, _ := strings.Cut(p.Identity, ":")
	return host
}

// Selection chooses processes: of each of the Groups that it names, those that have one of the values.
type Selection map[string][]string

// Matches reports whether it chooses a process. One without any values chooses all.
func (s Selection) Matches(p *Process) bool {
	for by, values := range s {
		if len(values) > 0 && !slices.Contains(values, Groups[by](p)) {
			return false
		}
	}
	return true
}

// Empty reports whether it has no values.
func (s Selection) Empty() bool {
	for _, values := range s {
		if len(values) > 0 {
			return false
		}
	}
	return true
}
