package chaos

import (
	"slices"
	"strings"
)

// Fault says which commands something happens to, and what. Commands that all of
// Command, Mentions and Where pick fit.
type Fault struct {
	Command  string                    // its name in any case; "": every command
	Mentions string                    // a part of an argument, such as a key or a jid; "": any
	Where    func(words []string) bool // on the name and the arguments; nil: any
	Skip     int                       // so many that fit pass before the first that does not
	Times    int                       // how often; 0: always
	Do       Effect

	proxy      *Proxy
	seen, hits int
}

// fits tells whether the fault is for this command.
func (f *Fault) fits(words []string) bool {
	return (f.Command == "" || strings.EqualFold(words[0], f.Command)) &&
		(f.Mentions == "" || slices.ContainsFunc(words[1:], func(arg string) bool { return strings.Contains(arg, f.Mentions) })) &&
		(f.Where == nil || f.Where(words))
}

// Hits is how often a fault that was added has happened.
func (f *Fault) Hits() int {
	f.proxy.mu.Lock()
	defer f.proxy.mu.Unlock()
	return f.hits
}

// Remove ends a fault that was added.
func (f *Fault) Remove() {
	f.proxy.mu.Lock()
	defer f.proxy.mu.Unlock()
	f.proxy.faults = slices.DeleteFunc(f.proxy.faults, func(other *Fault) bool { return other == f })
}
