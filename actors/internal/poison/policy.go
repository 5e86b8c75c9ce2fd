// Package poison decides what becomes of jobs whose process died under them.
package poison

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/retry"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/logs"
	"github.com/troupehq/troupe/internal/rescue"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/words"
)

// Policy decides where what dead processes had in progress goes.
type Policy struct {
	Limits
	Retry    retry.Policy
	Registry *troupe.Registry
	Callback *Callback // nil asks the classes
	Log      zerolog.Logger
	Actor    string // in the log
}

// Limits are those of actors.Poison, with the defaults filled in; -1 is none.
type Limits struct {
	Recoveries int
	Within     time.Duration
	Suspect    int
}

// Key counts by jid; what has none, by its bytes.
func (*Policy) Key(payload []byte) string {
	if p, err := troupe.ParsePayload(payload); err == nil && p.JID() != "" {
		return p.JID()
	}
	sum := sha256.Sum256(payload)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Decide applies the limits first, then the class's policy.
func (p *Policy) Decide(o rescue.Orphan) rescue.Decision {
	limit, times := p.Limits, len(o.Recoveries)
	payload, err := troupe.ParsePayload(o.Payload)
	if err != nil {
		payload = nil
	}
	counts := limit.Recoveries > 0
	switch {
	case counts && times >= limit.Recoveries && (o.Suspect || limit.Suspect < 0):
		return p.toDead(o, payload, true)
	case counts && limit.Suspect > 0 && times >= limit.Suspect:
		return rescue.Decision{Suspect: true}
	}
	route := p.route(payload, times)
	last := o.Recoveries[times-1]
	in := recoveredOf(o, payload)
	switch {
	case route.Dead:
		return p.toDead(o, payload, false)
	case route.Delay > 0:
		return rescue.Decision{
			To: job.ToSchedule, Score: scores.Of(last.At.Add(route.Delay)),
			Payload: p.Retry.Stamp(last.At, in, o.Queue), Forget: !counts,
		}
	case route.Queue != "" && route.Queue != o.Queue:
		return rescue.Decision{Queue: route.Queue, Payload: p.Retry.Stamp(last.At, in, route.Queue), Forget: !counts}
	}
	return rescue.Decision{Forget: !counts}
}

func recoveredOf(o rescue.Orphan, p *troupe.Payload) retry.Recovered {
	return retry.Recovered{
		Raw: o.Payload, Payload: p, Queue: o.Queue, Times: len(o.Recoveries),
		Process: o.Recoveries[len(o.Recoveries)-1].Process, Evidence: o.Recoveries,
	}
}

func (p *Policy) toDead(o rescue.Orphan, payload *troupe.Payload, poison bool) rescue.Decision {
	last := o.Recoveries[len(o.Recoveries)-1]
	why := &troupe.RecoveredError{
		Times: len(o.Recoveries), Within: p.Within, Process: last.Process, Cause: last.Cause, Poison: poison,
	}
	dec := p.Retry.Dead(last.At, recoveredOf(o, payload), why)
	return rescue.Decision{
		To: job.ToDead, Score: dec.Score, Payload: dec.Payload, Trim: dec.Trim, Forget: true, Why: why,
	}
}

// route asks the policies: the daemon's if there is one, else the class's.
func (p *Policy) route(payload *troupe.Payload, times int) troupe.Recovery {
	if payload == nil {
		return troupe.Recovery{}
	}
	if p.Callback == nil {
		e, _ := p.Registry.Lookup(payload.HandlerClass())
		return e.Options.Recovery
	}
	to, err := p.Callback.call(payload, times)
	if err != nil {
		logs.Err(p.Log.Error().Str("actor", p.Actor).Str("jid", words.Text(payload.JID())).
			Str("class", words.Text(payload.DisplayClass())), err).
			Msg("the recovery policy failed: the job goes back to its queue")
	}
	return to
}
