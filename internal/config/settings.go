package config

import (
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/words"
	"github.com/troupehq/troupe/sched"
)

// fetchers are the values of fetch.
var fetchers = []string{"reliable", "basic"}

// settings reads the value of each key into p.out; field is the key's path. A
// value that is null was not said.
var settings map[string]func(p *parse, n *node, field string)

func init() { // not a literal: readers reach settings again
	settings = map[string]func(*parse, *node, string){
		"concurrency": func(p *parse, n *node, field string) {
			p.notNull(n, field)
			p.out.Concurrency = p.int(n, field, 1, limits.MaxConcurrency)
			p.says("concurrency", n, field)
		},
		"queues": func(p *parse, n *node, field string) {
			p.out.Queues = p.queues(n, field)
			p.says("queues", n, field)
		},
		"capsules": func(p *parse, n *node, field string) { p.out.Capsules = p.capsules(n, field) },
		"shards":   func(p *parse, n *node, field string) { p.out.Shards = p.shards(n, field) },
		"limits":   func(p *parse, n *node, field string) { p.out.JobLimits = p.limits(n, field) },
		"outbox":   func(p *parse, n *node, field string) { p.out.Outboxes = p.outboxes(n, field) },
		"handlers": func(p *parse, n *node, field string) { p.out.Handlers = p.handlers(n, field) },
		"env":      func(p *parse, n *node, field string) { p.out.Env = p.env(n, field) },
		"timeout": func(p *parse, n *node, field string) {
			p.notNull(n, field)
			p.out.Timeout = p.duration(n, field, 0)
		},
		"lease":   func(p *parse, n *node, field string) { p.out.Lease = p.duration(n, field, limits.MinLease) },
		"poison":  func(p *parse, n *node, field string) { p.out.Poison = p.poison(n, field) },
		"verbose": func(p *parse, n *node, field string) { p.out.Verbose = p.bool(n, field) },
		"tag":     func(p *parse, n *node, field string) { p.out.Tag = p.string(n, field) },
		"labels":  func(p *parse, n *node, field string) { p.out.Labels = p.strings(n, field) },
		"environment": func(p *parse, n *node, field string) {
			p.out.Environment = p.string(n, field)
		},
		"fetch": func(p *parse, n *node, field string) { p.out.Fetch = p.word(n, field, fetchers...) },
		"unknown": func(p *parse, n *node, field string) {
			p.out.Unknown, p.out.unknownLine = p.policy(n, field), n.line
		},
		"strategy": func(p *parse, n *node, field string) { p.out.Strategy = p.strategy(n, field) },
		"max_retries": func(p *parse, n *node, field string) {
			p.out.MaxRetries = p.int(n, field, 0, math.MaxInt32)
			if p.out.MaxRetries == 0 && n.kind != null {
				p.out.MaxRetries = -1
			}
		},
		"dead_max_jobs": func(p *parse, n *node, field string) {
			p.out.DeadMax = p.int(n, field, 1, math.MaxInt32)
		},
		"dead_timeout_in_seconds": func(p *parse, n *node, field string) {
			p.out.DeadTimeout = p.duration(n, field, 0)
		},
		"poll_interval_average": func(p *parse, n *node, field string) {
			p.out.PollInterval = p.duration(n, field, 0)
		},
		"average_scheduled_poll_interval": func(p *parse, n *node, field string) {
			p.out.PollIntervalPerProcess = p.duration(n, field, 0)
		},
		"max_iteration_runtime": func(p *parse, n *node, field string) {
			p.out.MaxIterationRuntime = p.duration(n, field, 0)
		},
		"metrics": func(p *parse, n *node, field string) {
			p.out.Metrics = p.word(n, field, "off", "7", "8", "both")
		},
		"workers_key": func(p *parse, n *node, field string) { p.out.WorkersKey = p.bool(n, field) },
		"redis":       func(p *parse, n *node, field string) { p.out.Redis = p.redis(n, field) },
		"timestamps": func(p *parse, n *node, field string) {
			p.out.Timestamps = troupe.TimestampsFloat
			if p.word(n, field, "float", "ms") == "ms" {
				p.out.Timestamps = troupe.TimestampsMillis
			}
		},
		"encryption": func(p *parse, n *node, field string) {
			encryptionSettings.read(p, &p.out.Encryption, n, field, wantKeys, p.alien)
		},
		"periodic": func(p *parse, n *node, field string) { p.ownPeriodic(n, field) },
		"zone": func(p *parse, n *node, field string) {
			if n.kind == null {
				return
			}
			var err error
			if p.out.Zone, err = sched.Zone(p.string(n, field)); err != nil {
				p.bad(n, field, "a zone such as Europe/Berlin or +02:00")
			}
		},
		"ops": func(p *parse, n *node, field string) {
			if p.out.Ops = p.string(n, field); p.out.Ops != "" && !isAddress(p.out.Ops) {
				p.bad(n, field, wantAddress)
			}
		},
		"log": func(p *parse, n *node, field string) {
			p.out.LogFormat = p.word(n, field, "json", "console")
		},
		"log_level": func(p *parse, n *node, field string) {
			p.out.LogLevel = p.word(n, field, "debug", "info", "warn", "error")
		},
	}
}

const wantAddress = "an address to listen on, such as 127.0.0.1:9433"

func isAddress(s string) bool {
	_, port, err := net.SplitHostPort(s)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	return err == nil
}

// notNull refuses a key without a value where Ruby does.
func (p *parse) notNull(n *node, field string) {
	known := func(f Fault) bool { return f.Line == n.line } // such as an alias of nothing
	if n.kind == null && !slices.ContainsFunc(p.faults, known) {
		p.bad(n, field, "a value, or the key left out for the default")
	}
}

func (p *parse) int(n *node, field string, low, high int) int {
	if n.kind == null {
		return 0
	}
	f, ok := n.number()
	if !ok || f != math.Trunc(f) || f < float64(low) || f > float64(high) {
		p.bad(n, field, fmt.Sprintf("a whole number from %d to %d", low, high))
		return 0
	}
	return int(f)
}

// duration reads a number of seconds or a Go duration; it must be at least
// least, and above 0.
func (p *parse) duration(n *node, field string, least time.Duration) time.Duration {
	if n.kind == null {
		return 0
	}
	if n.kind == scalar {
		text := n.text
		if f, ok := n.number(); ok {
			text = strconv.FormatFloat(f, 'f', -1, 64)
		}
		if d, err := words.ParseDuration(text); err == nil && d >= least {
			return d
		}
	}
	want := words.WantDuration
	if least > 0 {
		want = fmt.Sprintf("at least %s, as seconds or a duration", least)
	}
	p.bad(n, field, want)
	return 0
}

// bool reads YAML 1.1's words, since that is what Ruby reads.
func (p *parse) bool(n *node, field string) bool {
	if n.kind == null {
		return false
	}
	if n.kind == scalar {
		switch strings.ToLower(n.text) {
		case "true", "yes", "on":
			return true
		case "false", "no", "off":
			return false
		}
	}
	p.bad(n, field, "true or false")
	return false
}

// string takes any scalar by its text.
func (p *parse) string(n *node, field string) string {
	if n.kind != scalar && n.kind != null {
		p.bad(n, field, "a word")
	}
	return n.plain()
}

// strings takes a list of scalars, or one.
func (p *parse) strings(n *node, field string) []string {
	switch n.kind {
	case null:
		return nil
	case scalar:
		return []string{n.plain()}
	case mapping:
		p.bad(n, field, "a list of words")
		return nil
	case list:
	}
	out := make([]string, 0, len(n.items))
	for i, item := range n.items {
		if item.kind != scalar {
			p.bad(item, fmt.Sprintf("%s[%d]", field, i), "a word")
			continue
		}
		out = append(out, item.plain())
	}
	return out
}

// word is one of names, in any case.
func (p *parse) word(n *node, field string, names ...string) string {
	if n.kind == null {
		return ""
	}
	w := strings.ToLower(n.plain())
	if n.kind != scalar || !slices.Contains(names, w) {
		p.bad(n, field, words.OneOf(w, names...))
		return ""
	}
	return w
}
