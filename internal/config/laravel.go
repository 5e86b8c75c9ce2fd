package config

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"time"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/wire"
	"github.com/troupehq/troupe/wire/laravel"
)

// laravelEntry is what a capsule with wire: laravel says of Laravel.
type laravelEntry struct {
	Prefix     string
	Database   *int
	Connection string
	Tries      int // 0 is the default, -1 without end
	Backoff    []time.Duration
	AppKey     secretText
	Relay      string
	Cache      *laravel.Cache
}

const maxDatabase = math.MaxInt16

var laravelSettings = readers[laravelEntry]{
	"prefix": func(p *parse, l *laravelEntry, n *node, field string) { l.Prefix = p.string(n, field) },
	"database": func(p *parse, l *laravelEntry, n *node, field string) {
		if n.kind != null {
			l.Database = new(p.int(n, field, 0, maxDatabase))
		}
	},
	"connection": func(p *parse, l *laravelEntry, n *node, field string) { l.Connection = p.string(n, field) },
	"tries": func(p *parse, l *laravelEntry, n *node, field string) {
		if l.Tries = p.int(n, field, 0, math.MaxInt32); l.Tries == 0 && n.kind != null {
			l.Tries = -1
		}
	},
	"backoff": func(p *parse, l *laravelEntry, n *node, field string) {
		if n.kind != list {
			l.Backoff = []time.Duration{p.pause(n, field)}
			return
		}
		for i, item := range n.items {
			l.Backoff = append(l.Backoff, p.pause(item, fmt.Sprintf("%s[%d]", field, i)))
		}
	},
	"app_key": func(p *parse, l *laravelEntry, n *node, field string) { l.AppKey = p.text(n, field) },
	"relay":   func(p *parse, l *laravelEntry, n *node, field string) { l.Relay = p.string(n, field) },
	"cache": func(p *parse, l *laravelEntry, n *node, field string) {
		l.Cache = &laravel.Cache{Database: 1}
		laravelCache.read(p, l.Cache, n, field, "a map with prefix and database", p.alien)
	},
}

var laravelCache = readers[laravel.Cache]{
	"prefix": func(p *parse, c *laravel.Cache, n *node, field string) { c.Prefix = p.string(n, field) },
	"database": func(p *parse, c *laravel.Cache, n *node, field string) {
		c.Database = p.int(n, field, 0, maxDatabase)
	},
}

// pause is a duration that may be 0.
func (p *parse) pause(n *node, field string) time.Duration {
	if f, ok := n.number(); ok && f == 0 {
		return 0
	}
	return p.duration(n, field, 0)
}

// limitSettings are keys of a capsule: what Laravel's worker knows as options.
var limitSettings = readers[capsule]{
	"once": func(p *parse, c *capsule, n *node, field string) {
		if p.bool(n, field) {
			c.Limits.Jobs, c.Limits.Empty = 1, true
		}
	},
	"stop_when_empty": func(p *parse, c *capsule, n *node, field string) {
		c.Limits.Empty = c.Limits.Empty || p.bool(n, field)
	},
	"max_jobs": func(p *parse, c *capsule, n *node, field string) {
		c.Limits.Jobs = p.int(n, field, 0, math.MaxInt32)
	},
	"max_time": func(p *parse, c *capsule, n *node, field string) { c.Limits.Time = p.pause(n, field) },
	"memory": func(p *parse, c *capsule, n *node, field string) {
		c.Limits.Memory = int64(p.int(n, field, 0, math.MaxInt32)) << 20
	},
	"rest": func(p *parse, c *capsule, n *node, field string) { c.Rest = p.pause(n, field) },
}

func init() {
	maps.Copy(capsuleSettings, limitSettings)
}

// limitsText is what the summary says of limits.
func limitsText(l actors.Limits) (text string) {
	if l.Empty {
		text += ", until its queues are empty"
	}
	if l.Jobs > 0 {
		text += ", for " + strconv.Itoa(l.Jobs) + " jobs"
	}
	if l.Time > 0 {
		text += ", for " + l.Time.String()
	}
	if l.Memory > 0 {
		text += fmt.Sprintf(", up to %d MB of memory", l.Memory>>20)
	}
	return text
}

func (l *laravelEntry) wire() (*wire.Wire, error) {
	if l == nil {
		l = &laravelEntry{}
	}
	return laravel.New(laravel.Options{
		Prefix: l.Prefix, Database: l.Database, Connection: l.Connection, Tries: l.Tries,
		Backoff: l.Backoff, AppKey: l.AppKey.Value, Relay: l.Relay, Cache: l.Cache,
	})
}
