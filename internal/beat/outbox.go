package beat

import (
	"maps"
	"slices"
	"time"

	"github.com/troupehq/troupe/internal/tree"
)

// Outbox is an outbox as the relays of a fleet tell it.
type Outbox struct {
	Name string `json:"name"`
	// Leader is the process whose relay brings rows to Redis; "" if none of the fleet does.
	Leader string `json:"leader,omitempty"`
	Waits  int    `json:"waits"` // relays that wait for the leader
	Down   int    `json:"down"`  // relays that cannot work
	// Relay is that of the leader, else one that cannot work, else one that waits.
	Relay tree.Relay `json:"relay"`
}

// Outboxes are those of the processes that are up, by name.
func Outboxes(pulses map[string]*Pulse) []Outbox {
	byName := map[string]*Outbox{}
	for _, identity := range slices.Sorted(maps.Keys(pulses)) {
		p := pulses[identity]
		if p == nil || time.Since(time.UnixMilli(int64(p.At*1e3))) > Silence {
			continue
		}
		for name, r := range p.Outboxes {
			o := byName[name]
			if o == nil {
				o = &Outbox{Name: name, Relay: r}
				byName[name] = o
			}
			switch {
			case r.State == tree.RelayLeads:
				if o.Leader == "" || r.Since.After(o.Relay.Since) { // one that has not noticed yet tells so until its next beat
					o.Leader, o.Relay = identity, r
				}
			case r.State == tree.RelayWaits:
				o.Waits++
			case r.State != "":
				if o.Down++; o.Leader == "" {
					o.Relay = r
				}
			}
		}
	}
	var all []Outbox
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		all = append(all, *byName[name])
	}
	return all
}
