package retry

import (
	"strings"
	"time"

	"github.com/troupehq/troupe"
)

// Recovered is a job whose process died and that goes somewhere else than back to its queue.
type Recovered struct {
	Raw      []byte          // as it was in progress; never modified
	Payload  *troupe.Payload // Raw parsed, or nil if it is no job; never modified
	Queue    string          // bare name of the queue it was fetched from
	Times    int             // recoveries so far, this one included
	Process  string          // identity of the process that died
	Evidence any             // for the dead: what is known of each time, JSON
}

// recoveredTag marks a recovered job in the lists of Sidekiq's Web UI.
const recoveredTag = "recovered"

// Dead is the decision to send it to the dead set because of err.
func (pol Policy) Dead(now time.Time, in Recovered, err error) Decision {
	if in.Payload == nil {
		return pol.invalid(now, in.Raw, in.Queue, err)
	}
	m := pol.stamp(now, in, in.Queue)
	m.SetString("error_message", message(err))
	m.SetString("error_class", class(err))
	at := "failed_at"
	if _, failed := m.Time(at); failed {
		at = "retried_at"
	}
	m.SetTime(at, now, pol.Timestamps)
	_ = m.SetJSON("recoveries", in.Evidence) // the message has the last of them
	d := Decision{Outcome: Dead, Reason: becauseKilled, RetryCount: notCounted, RunDeathHandlers: true, DeathPayload: m, Payload: in.Raw}
	if m.Rewritable() == nil {
		d.Payload = m.Bytes()
	}
	pol.toDead(&d, now)
	return d
}

// Stamp is the job marked as recovered, on its way to queue; nil if it cannot be
// written: it is to go as it is.
func (pol Policy) Stamp(now time.Time, in Recovered, queue string) []byte {
	if in.Payload == nil {
		return nil
	}
	m := pol.stamp(now, in, queue)
	if m.Rewritable() != nil {
		return nil
	}
	return m.Bytes()
}

func (pol Policy) stamp(now time.Time, in Recovered, queue string) *troupe.Payload {
	m := in.Payload.Clone()
	if pol.Rules == nil {
		pushable(m)
	}
	if m.Queue() != queue {
		m.SetString("queue", queue)
	}
	m.SetInt("recovered", int64(in.Times))
	m.SetTime("recovered_at", now, pol.Timestamps)
	m.SetString("recovered_from", in.Process)
	raw, _ := m.Get("tags")
	switch text := strings.TrimSpace(string(raw)); {
	case text == "", text == "null", text == "[]":
		m.Set("tags", []byte(`["`+recoveredTag+`"]`))
	case strings.HasPrefix(text, "[") && !strings.Contains(text, `"`+recoveredTag+`"`):
		m.Set("tags", []byte(strings.TrimSuffix(text, "]")+`,"`+recoveredTag+`"]`))
	}
	return m
}
