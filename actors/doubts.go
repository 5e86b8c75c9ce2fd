package actors

import (
	"fmt"
	"slices"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/periodic"
)

// shownNames is how many classes or entries a warning names.
const shownNames = 20

// doubt is what is odd about a configuration and yet may be meant: Start warns of it.
type doubt struct {
	key   string   // of names in the line
	names []string // of the classes or entries
	text  string
}

func (d doubt) tell(log zerolog.Logger) {
	names := slices.Compact(slices.Sorted(slices.Values(d.names)))
	if more := len(names) - shownNames; more > 0 {
		names = append(names[:shownNames], fmt.Sprintf("and %d more", more))
	}
	log.Warn().Strs(d.key, names).Msg(d.text)
}

// doubts are those about the daemons of a process.
func doubts(configs ...Config) (all []doubt) {
	add := func(key string, names []string, text string) {
		if len(names) > 0 {
			all = append(all, doubt{key, names, text})
		}
	}
	var classes, empty, untagged, untaken, unknown []string
	for _, c := range configs {
		for _, class := range c.Registry.Classes() {
			e, _ := c.Registry.Lookup(class)
			taken := slices.ContainsFunc(configs, func(c Config) bool { return len(c.takers(e.Options.Queue)) > 0 })
			if e.Options.Queue != "" && !taken {
				classes = append(classes, fmt.Sprintf("%s (queue %s)", class, e.Options.Queue))
			}
		}
		if len(c.Registry.Classes()) == 0 && len(c.Outboxes) == 0 { // one with outboxes may be for them alone
			for _, k := range c.Capsules {
				if k.Unknown == (Unknown{}) {
					empty = append(empty, k.Name)
				}
			}
		}
		for _, p := range c.Periodic {
			if c.PeriodicTag == "" {
				untagged = append(untagged, p.Name)
			}
			if p.ActiveJob {
				continue // for Ruby
			}
			class, queue := periodic.Target(p)
			takers := c.takers(queue)
			_, known := c.Registry.Lookup(class)
			switch {
			case len(takers) == 0:
				untaken = append(untaken, fmt.Sprintf("%s (queue %s)", p.Name, queue))
			case !known && slices.ContainsFunc(takers, func(k Capsule) bool { return k.Unknown == (Unknown{}) }):
				unknown = append(unknown, fmt.Sprintf("%s (class %s)", p.Name, class))
			}
		}
	}
	add("classes", classes, "no capsule takes from the queues to which jobs of these classes are pushed: they wait for another process")
	add("capsules", empty, "the registry has no handlers: each job that these capsules take fails")
	add("periodic", untaken, "no capsule takes from the queues to which these periodic jobs are pushed: they wait for another process")
	add("periodic", unknown, "the classes of these periodic jobs have no handler: each job that a capsule takes fails")
	add("periodic", untagged, "Periodic without PeriodicTag: entries that you remove later stay in Redis and go on pushing jobs; set PeriodicTag, in a file tag, to a name of this configuration")
	return all
}

// takers are the capsules that take from a queue of Sidekiq's; those of other systems have other queues.
func (c *Config) takers(queue string) (all []Capsule) {
	for _, k := range c.Capsules {
		foreign := k.Wire != nil && (k.Wire.Key != nil || k.Wire.Fetch != nil)
		if !foreign && slices.Contains(k.Queues.List().Names(), queue) {
			all = append(all, k)
		}
	}
	return all
}
