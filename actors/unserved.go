package actors

import (
	"fmt"
	"slices"
)

// shownClasses is how many classes the warning names.
const shownClasses = 20

// unserved are the classes of the registries of a process, each with its queue, whose Defaults name
// a queue that none of its capsules takes from. Queues of other systems than Sidekiq's are others.
func unserved(configs ...Config) (classes []string) {
	taken := map[string]bool{}
	for _, c := range configs {
		for _, k := range c.Capsules {
			if k.Wire != nil && (k.Wire.Key != nil || k.Wire.Fetch != nil) {
				continue
			}
			for _, q := range k.Queues.List().Names() {
				taken[q] = true
			}
		}
	}
	for _, c := range configs {
		for _, class := range c.Registry.Classes() {
			if e, _ := c.Registry.Lookup(class); e.Options.Queue != "" && !taken[e.Options.Queue] {
				classes = append(classes, fmt.Sprintf("%s (queue %s)", class, e.Options.Queue))
			}
		}
	}
	slices.Sort(classes)
	classes = slices.Compact(classes)
	if more := len(classes) - shownClasses; more > 0 {
		classes = append(classes[:shownClasses], fmt.Sprintf("and %d more", more))
	}
	return classes
}
