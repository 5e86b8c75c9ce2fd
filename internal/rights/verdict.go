package rights

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// denied tells what an error denies: "command", "key" or "channel"; "" if it is no
// matter of rights. Redis looks at the command first. The words of 6.2, 7.0 and 7.2
// differ.
func denied(err error) string {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return ""
	}
	text := strings.TrimPrefix(reply.Error(), "EXECABORT Transaction discarded because of: ") // of EXEC
	switch {
	case !strings.HasPrefix(text, "NOPERM"):
		return ""
	case strings.Contains(text, "permissions to run"):
		return "command"
	case strings.Contains(text, " channel"):
		return "channel"
	case strings.Contains(text, " key"):
		return "key"
	}
	return "command"
}

// denies reports whether one of the calls was denied for what.
func (a *answer[T]) denies(what string) bool {
	return slices.ContainsFunc(a.cmds, func(cmd *redis.Cmd) bool { return denied(cmd.Err()) == what })
}

// unknown reports whether the server does not know the command, under this name.
func (a *answer[T]) unknown() bool {
	return slices.ContainsFunc(a.cmds, func(cmd *redis.Cmd) bool { return unknown(cmd.Err()) })
}

func unknown(err error) bool { return err != nil && redis.HasErrorPrefix(err, "unknown command") }

// untold reports whether none of the calls could tell: their commands were denied.
func (a *answer[T]) untold() bool {
	return !slices.ContainsFunc(a.cmds, func(cmd *redis.Cmd) bool { return denied(cmd.Err()) != "command" })
}

// verdict tells what the answers mean.
func (a *answers) verdict(addr, user string) (warnings []string, err error) {
	e, needed := &Error{Addr: addr, User: user, For: a.purpose}, false
	without := map[string][]string{}
	add := func(list *[]string, name, rule, why string) {
		if slices.Contains(*list, name) {
			return
		}
		*list = append(*list, name)
		if !slices.Contains(e.Rule, rule) {
			e.Rule = append(e.Rule, rule)
		}
		if needed = needed || why == ""; why != "" {
			without[why] = append(without[why], name)
		}
	}
	for _, x := range a.commands {
		if x.to.why == "" && x.unknown() {
			e.Unknown, needed = append(e.Unknown, x.name), true
		}
		if x.denies("command") {
			add(&e.Commands, x.name, "+"+strings.ToLower(x.name), x.to.why)
		}
	}
	for _, x := range shown(a.keys, "key") {
		add(&e.Keys, x.name, "~"+x.to.rule, x.to.why)
	}
	for _, x := range shown(a.channels, "channel") {
		add(&e.Channels, x.name, "&"+x.to.rule, x.to.why)
	}
	if needed {
		for _, x := range a.keys {
			if x.untold() {
				a.unasked = append(a.unasked, "~"+x.to.rule)
			}
		}
		for _, x := range a.channels {
			if x.untold() {
				a.unasked = append(a.unasked, "&"+x.to.rule)
			}
		}
		for _, rule := range a.unasked {
			if !slices.Contains(e.Rule, rule) {
				e.Unasked, e.Rule = append(e.Unasked, rule), append(e.Rule, rule)
			}
		}
		return nil, e
	}
	for _, why := range slices.Sorted(maps.Keys(without)) {
		warnings = append(warnings, fmt.Sprintf("redis at %s does not give user %q the right to %s: %s",
			addr, user, strings.Join(without[why], ", "), why))
	}
	return warnings, nil
}

// shown are the denied ones of names, by their pattern where they are many.
func shown(all []answer[names], what string) (out []answer[names]) {
	const many = 3
	count := map[string]int{}
	for _, x := range all {
		if x.denies(what) {
			out = append(out, x)
			count[x.to.rule]++
		}
	}
	for i := range out {
		if count[out[i].to.rule] > many {
			out[i].name = out[i].to.rule
		}
	}
	return out
}
