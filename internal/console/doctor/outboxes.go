package doctor

import (
	"fmt"
	"time"

	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/words"
)

// lateRow is how long a row of an outbox waits until that is told.
const lateRow = time.Minute

// outboxes looks at what the relays of outboxes tell.
func (e *exam) outboxes() error {
	pulses, err := beat.ReadPulses(e.ctx, e.rdb)
	e.report.Findings = append(e.report.Findings, Outboxes(beat.Outboxes(pulses))...)
	return err
}

// Outboxes are the findings about some.
func Outboxes(all []beat.Outbox) (found []Finding) {
	find := func(severity, do, format string, args ...any) {
		found = append(found, Finding{Severity: severity, Code: "outboxes", Text: fmt.Sprintf(format, args...), Do: do})
	}
	for _, o := range all {
		name := words.Head(o.Name)
		why := map[string]string{"no_database": "its database is away, or refuses", "no_tables": "its tables are missing, or of another version", "no_redis": "Redis takes no jobs of it"}[o.Relay.State]
		if why != "" && o.Relay.Error != "" {
			why += " (" + words.FirstLine(masked.Text(o.Relay.Error), 200) + ")"
		}
		oldest := time.Duration(0)
		if !o.Relay.Oldest.IsZero() {
			oldest = time.Since(o.Relay.Oldest)
		}
		switch {
		case o.Leader == "" && o.Waits == 0 && o.Down > 0:
			find(Danger, "see to its database; troupe outbox status and schema ask it", "no process relays the outbox %s: %s", name, why)
		case o.Down > 0:
			find(Warning, "see to the connection of those processes to the database", "the outbox %s cannot be relayed by %s", name, words.Plural(o.Down, "process"))
		}
		if o.Relay.Waiting > 0 && oldest > lateRow {
			find(Danger, "see the relay's state with troupe tree, and its log", "%s of the outbox %s wait, the oldest for %s", words.Plural(o.Relay.Waiting, "row"), name, words.Few(oldest))
		}
		if o.Relay.Refused > 0 {
			find(Warning, "troupe outbox status shows them; correct them, and move them back as docs/outbox.md tells",
				"%s of the outbox %s can be no jobs; the last one: %s", words.Plural(o.Relay.Refused, "row"), name, words.FirstLine(masked.Text(o.Relay.Reason), 200))
		}
	}
	return found
}
