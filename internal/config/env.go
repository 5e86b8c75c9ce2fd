package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/troupehq/troupe/internal/redisconn"

	"github.com/troupehq/troupe/internal/handlerconf"
)

// variable is one entry of env:, a variable of the daemon that programs get.
type variable struct {
	Name string

	field string
	line  int
}

// env reads a list of names of variables.
func (p *parse) env(n *node, field string) (out []variable) {
	if n.kind == null {
		return nil
	}
	if n.kind != list {
		hidden := *n
		hidden.text = "***" // perhaps a value
		p.bad(&hidden, field, "a list of names of variables: [NAME, …]")
		return nil
	}
	for i, item := range n.items {
		at := fmt.Sprintf("%s[%d]", field, i)
		if item.kind != scalar {
			p.bad(item, at, "the name of a variable")
			continue
		}
		if err := handlerconf.Variable(item.text); err != nil {
			name, _, value := strings.Cut(item.text, "=")
			if value {
				name += "=***"
			}
			p.fault(item.line, at, strconv.Quote(clip(name)), err.Error())
			continue
		}
		out = append(out, variable{Name: item.text, field: at, line: item.line})
	}
	return out
}

// variables refuses names of variables that have secrets of the daemon.
func (l *loader) variables() {
	secrets := map[string]string{}
	note := func(t secretText, field string) {
		if t.Env != "" {
			secrets[t.Env] = field
		}
	}
	for _, h := range l.s.Handlers {
		if h.HTTP == nil {
			continue
		}
		field := "handlers." + h.Class + ".http"
		note(h.HTTP.URL, field+".url")
		note(h.HTTP.Secret, field+".secret")
		for _, header := range h.HTTP.Headers {
			note(header.Value, field+".headers."+header.Name)
		}
	}
	for version, key := range l.s.Encryption.Keys {
		note(key, fmt.Sprintf("encryption.keys.%d", version))
	}
	for _, o := range l.s.Outboxes {
		note(o.DSN, "outbox."+o.Name+".dsn")
	}
	if l.flags.Redis == "" && l.s.Redis == "" && len(l.s.Shards) == 0 && strings.Contains(redisconn.Mask(l.s.RedisURL), "***") {
		name := l.getenv("REDIS_PROVIDER")
		if name == "" || l.getenv(name) == "" {
			name = "REDIS_URL"
		}
		secrets[name] = "the password of Redis"
	}
	given := slices.Clone(l.s.Env)
	for _, h := range l.s.Handlers {
		given = append(given, h.Env...)
	}
	for _, v := range given {
		if use := secrets[v.Name]; use != "" {
			l.faults = append(l.faults, Fault{
				File: l.s.Path, Line: v.line, Field: v.field, Value: strconv.Quote(clip(v.Name)),
				Want: "a variable that is no secret of the daemon (it is used as " + use + "); give programs one of their own",
			})
		}
	}
}

func names(of ...[]variable) (out []string) {
	for _, vars := range of {
		for _, v := range vars {
			out = append(out, v.Name)
		}
	}
	return out
}
