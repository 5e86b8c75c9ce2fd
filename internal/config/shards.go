package config

import (
	"slices"
	"strconv"

	"github.com/troupehq/troupe/fetch"
)

// shardEntry is one entry of shards:, a Redis with the queues that live there.
type shardEntry struct {
	Name        string
	Redis       string // URL
	Concurrency int
	Queues      fetch.Queues // of the capsule default
	Capsules    []capsule

	line int
}

// Tree is what runs on one shard: the settings as if it were the only Redis.
type Tree struct {
	Shard    string
	Settings *Settings
}

// shardKeys are the keys of a shard; they mean what they mean at the top level.
func shardKeys() []string { return []string{"capsules", "concurrency", "queues", "redis"} }

// shards reads a map by name, or a list of maps with a name.
func (p *parse) shards(n *node, field string) []shardEntry {
	var out []shardEntry
	p.named(n, field, "shard", "a map with name, redis, and queues or capsules", nil, func(name string, n *node, field string) {
		out = append(out, p.shard(name, n, field))
	})
	return out
}

func (p *parse) shard(name string, n *node, field string) shardEntry {
	if n.kind != mapping {
		p.bad(n, field, "a map with redis, and queues or capsules")
		return shardEntry{Name: name}
	}
	own := &parse{name: p.name, erb: p.erb, out: &File{}}
	for _, e := range n.entries {
		switch {
		case slices.Contains(shardKeys(), e.key):
			settings[e.key](own, e.value, field+"."+e.key)
		case e.key == "name":
		default:
			own.unknown(e.line, field+"."+e.key, e.key, shardKeys())
		}
	}
	own.twoDefaults()
	if own.out.Redis == "" && len(own.faults) == 0 {
		own.fault(n.line, field+".redis", "missing", "the shard's Redis")
	}
	p.faults = append(p.faults, own.faults...)
	for _, w := range own.out.Warnings {
		p.warn(w.Line, w.Field, w.Ignored)
	}
	return shardEntry{
		Name: name, Redis: own.out.Redis, Concurrency: own.out.Concurrency,
		Queues: own.out.Queues, Capsules: own.out.Capsules, line: n.line,
	}
}

// shards makes a tree of each shard. What tells the one Redis and its queues must
// not stand beside them.
func (l *loader) shards() {
	s := l.s
	for _, beside := range []struct {
		field string
		given bool
	}{
		{"redis", s.Redis != ""}, {"concurrency", s.Concurrency > 0}, {"queues", s.Queues != nil},
		{"capsules", len(s.Capsules) > 0}, {"--redis", l.flags.Redis != ""}, {"-c", l.flags.Concurrency > 0},
		{"-q", l.flags.Queues != nil},
	} {
		if beside.given {
			l.faults = append(l.faults, Fault{
				File: s.Path, Field: beside.field, Value: "given beside shards",
				Want: "it in each shard, or no shards",
			})
		}
	}
	if len(s.Periodic) > 0 {
		l.faults = append(l.faults, Fault{
			File: s.Path, Field: "periodic", Value: "given beside shards",
			Want: "no shards, each of which would push the jobs; or periodic: elsewhere",
		})
	}
	where := map[string]string{}
	for _, shard := range s.Shards {
		own := *s
		own.Shards, own.Redis, own.RedisURL = nil, shard.Redis, shard.Redis
		own.Concurrency, own.Queues, own.Capsules = shard.Concurrency, shard.Queues, slices.Clone(shard.Capsules)
		if len(own.Capsules) == 0 || own.Queues != nil || own.Concurrency > 0 {
			sub := &loader{getenv: l.getenv, s: &own}
			sub.capsules()
			l.faults = append(l.faults, sub.faults...)
		}
		for i := range own.Capsules {
			c := &own.Capsules[i]
			if c.Queues == nil {
				c.Queues = fetch.Strict{"default"}
			}
			for _, queue := range c.Queues.List().Names() {
				if other, taken := where[queue]; taken && other != shard.Name {
					l.faults = append(l.faults, Fault{
						File: s.Path, Line: shard.line, Field: "shards." + shard.Name,
						Value: strconv.Quote(queue) + ", a queue of shard " + other, Want: "each queue on one shard",
					})
				}
				where[queue] = shard.Name
			}
		}
		l.waiters(&own, "shards."+shard.Name+".capsules.")
		l.wires(&own, "shards."+shard.Name+".capsules.")
		l.unknown(&own, "shards."+shard.Name+".capsules.")
		l.keepLimits(&own)
		s.Trees = append(s.Trees, Tree{Shard: shard.Name, Settings: &own})
	}
}
