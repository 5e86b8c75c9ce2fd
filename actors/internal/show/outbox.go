package show

import (
	"fmt"
	"time"

	"github.com/troupehq/troupe/internal/tree"
	"github.com/troupehq/troupe/internal/words"
)

// Outbox is the relay of an outbox at one moment.
type Outbox struct {
	Name, Path string
	Ready      bool // it counts for Health.Ready
	tree.Relay
}

// OutboxMetrics are the relay of one outbox in this process. Waiting, Oldest and Refused are told by the one that works, and 0 elsewhere.
type OutboxMetrics struct {
	Outbox  string
	State   string        // leads, waits, no_database, no_tables or no_redis; "" if it does not run
	Pushed  uint64        // jobs
	Bad     uint64        // rows that can be no jobs
	Waiting int64         // rows
	Oldest  time.Duration // age of the oldest of them
	Refused int64         // rows in troupe_outbox_bad
}

// metrics are those of all outboxes.
func (v *View) outboxMetrics() (all []OutboxMetrics) {
	for _, o := range v.Outboxes {
		m := OutboxMetrics{Outbox: o.Name, State: o.State, Pushed: o.Pushed, Bad: o.Bad}
		if o.State != tree.RelayWaits && o.State != "" {
			m.Waiting, m.Refused = o.Waiting, o.Relay.Refused
			if !o.Oldest.IsZero() {
				m.Oldest = max(0, v.Now.Sub(o.Oldest))
			}
		}
		all = append(all, m)
	}
	return all
}

// show fills in what the relay tells of its actor.
func (o *Outbox) show(n *tree.Node) {
	if n.Path != o.Path || n.State != tree.StateRunning || n.Note != "" || o.State == "" {
		return
	}
	n.Note = "(" + o.text() + ")"
}

// text is the state for people.
func (o *Outbox) text() string {
	text := map[string]string{
		tree.RelayLeads: "leads", tree.RelayWaits: "waits: another one leads", tree.RelayNoDatabase: "no database",
		tree.RelayNoTables: "no tables", tree.RelayNoRedis: "no Redis",
	}[o.State]
	if o.State == tree.RelayLeads && o.Waiting > 0 {
		text += ", " + words.Plural(o.Waiting, "row") + " wait"
	}
	if o.Error != "" {
		text += ": " + words.FirstLine(o.Error, pulseText)
	}
	return text
}

// away tells whether the relay cannot work.
func (o *Outbox) away() bool {
	return o.State == tree.RelayNoDatabase || o.State == tree.RelayNoTables || o.State == tree.RelayNoRedis
}

// ready finds the relays that are wanted and have been unable to work for a while.
func (v *View) outboxesReady(why *Check) {
	for i := range v.Outboxes {
		o := &v.Outboxes[i]
		if since := v.Now.Sub(o.Since); o.Ready && o.away() && since >= awayTime {
			why.add("outbox", "%s", fmt.Sprintf("%s has been unable to work for %s: %s", o.Path, words.Few(since), o.text()))
		}
	}
}

// pulseOutboxes are the relays as a pulse tells them.
func (v *View) pulseOutboxes() map[string]tree.Relay {
	all := map[string]tree.Relay{}
	for _, o := range v.Outboxes[:min(len(v.Outboxes), pulseOutboxes)] {
		r := o.Relay
		r.Error, r.Reason = words.FirstLine(r.Error, pulseText), words.FirstLine(r.Reason, pulseText)
		r.Since, r.Oldest = r.Since.UTC().Truncate(time.Millisecond), r.Oldest.UTC().Truncate(time.Millisecond)
		all[words.Text(o.Name)] = r
	}
	return all
}
