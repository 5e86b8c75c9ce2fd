package rights

import (
	"fmt"
	"strings"
)

// Error is a user who may not do what the daemon needs.
type Error struct {
	Addr, User string
	For        string   // "that the daemon needs"
	Commands   []string // upper case, CLIENT|ID for a subcommand
	Keys       []string
	Channels   []string
	Unasked    []string // what may be missing, and could not be asked for want of the others
	Rule       []string // what grants them all, the unasked too: +command, ~key and &channel
	Unknown    []string // commands that the server does not know: nobody may call them
}

// Error names everything that is missing, and the rule that grants it.
func (e *Error) Error() string {
	if len(e.Unknown) > 0 {
		text := fmt.Sprintf("redis at %s does not know the commands %s, missing are %s: has its configuration renamed them (rename-command)?",
			e.Addr, e.For, strings.Join(e.Unknown, ", "))
		if e.missing() != "" {
			text += fmt.Sprintf(" It does not give user %q the rights either, missing are %s", e.User, e.missing())
		}
		return text
	}
	return fmt.Sprintf("redis at %s does not give user %q the rights %s, missing are %s: grant them with ACL SETUSER %s %s",
		e.Addr, e.User, e.For, e.missing(), e.User, strings.Join(e.Rule, " "))
}

func (e *Error) missing() string {
	var parts []string
	for _, p := range []struct {
		what string
		list []string
	}{{"commands ", e.Commands}, {"keys ", e.Keys}, {"channels ", e.Channels}, {"perhaps ", e.Unasked}} {
		if len(p.list) > 0 {
			parts = append(parts, p.what+strings.Join(p.list, ", "))
		}
	}
	return strings.Join(parts, "; ")
}
