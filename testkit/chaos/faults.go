package chaos

import (
	"slices"
	"strings"
)

// Command is a command as a client has sent it: its name and arguments.
type Command []string

// Is tells whether the command's name is name, in any case.
func (c Command) Is(name string) bool { return strings.EqualFold(c[0], name) }

// Mentions tells whether an argument contains text: a key, a part of a job.
func (c Command) Mentions(text string) bool {
	return slices.ContainsFunc(c[1:], func(arg string) bool { return strings.Contains(arg, text) })
}

// Fault says which commands something happens to, and what.
type Fault struct {
	Command string             // name in any case; "": every command
	Where   func(Command) bool // nil: all of that name
	Skip    int                // so many that fit pass before the first that does not
	Times   int                // how often; 0: always
	Do      Effect
}

// Rule is a Fault that was added.
type Rule struct {
	proxy *Proxy
	fault Fault
	seen  int
	hits  int
}

// Hits is how often the fault has happened.
func (r *Rule) Hits() int {
	r.proxy.mu.Lock()
	defer r.proxy.mu.Unlock()
	return r.hits
}

// Remove ends the fault.
func (r *Rule) Remove() {
	r.proxy.mu.Lock()
	defer r.proxy.mu.Unlock()
	r.proxy.rules = slices.DeleteFunc(r.proxy.rules, func(other *Rule) bool { return other == r })
}
