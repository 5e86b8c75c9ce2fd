package ops

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"
)

// limitCounts are the values of a limit.
type limitCounts struct {
	name        string
	held, slots int64
	resting     int
	oldest      time.Duration
	open        bool
}

func (c *limitCounts) add(other limitCounts) {
	c.held, c.slots, c.resting = c.held+other.held, c.slots+other.slots, c.resting+other.resting
	c.oldest, c.open = max(c.oldest, other.oldest), c.open && other.open
}

// limits reads the limits, never by key: a key is an argument of its jobs. What they hold is counted of all keys, slots and ages of those that
// Inspector.Limits reads.
func (f fleetCollector) limits(ctx context.Context, p *points) error {
	all, _, err := f.Inspector.Limits(ctx)
	if err != nil {
		return err
	}
	now, byName := time.Now(), map[string]*limitCounts{}
	count := func(name string) *limitCounts {
		if byName[name] == nil {
			byName[name] = &limitCounts{name: name, open: true}
		}
		return byName[name]
	}
	for _, l := range all {
		c := limitCounts{slots: l.Taken(), resting: l.Resting(), open: l.Allows.AtOnce > 0 || l.Allows.Every > 0}
		if oldest := l.Oldest(); !oldest.IsZero() {
			c.oldest = max(0, now.Sub(oldest))
		}
		count(l.Name).add(c)
	}
	for rule, err := range f.Inspector.HeldRules(ctx) {
		if err != nil {
			return err
		}
		count(rule.Name).held += rule.Held
	}
	named := slices.SortedFunc(maps.Values(byName), func(a, b *limitCounts) int {
		return cmp.Or(cmp.Compare(b.held, a.held), cmp.Compare(b.resting, a.resting), cmp.Compare(b.slots, a.slots), cmp.Compare(a.name, b.name))
	})
	for i, c := range named {
		if c.name == other {
			c.name = strconv.Quote(other) // a limit of that name
		}
		if i == maxNamed {
			for _, more := range named[i+1:] {
				c.add(*more)
			}
			c.name = other
		}
		name := text(c.name)
		p.add(limitHeld, float64(c.held), name)
		p.add(limitSlots, float64(c.slots), name)
		p.add(limitOldest, c.oldest.Seconds(), name)
		p.add(limitOpen, oneIf(c.open), name)
		p.add(limitRests, float64(c.resting), name)
		if i == maxNamed {
			break
		}
	}
	return nil
}
