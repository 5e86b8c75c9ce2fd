// Package pushspan has what package trace and a client tell each other of the calls that push.
// It is a package of its own since trace imports client, and client must not link OpenTelemetry.
package pushspan

import (
	"context"

	"github.com/troupehq/troupe"
)

// Call is a call of a client that pushes. In that of a bulk a text is "" until it is known,
// and if it is not the same for all jobs.
type Call struct {
	Queue, Class, JID string
	Bulk              bool
	Jobs              int             // that it has had so far
	Payload           *troupe.Payload // of PushPayload, which Begin may edit; else nil
}

// Span is that of a call.
type Span struct {
	Call

	// Fields are what each job of the call is to have, but for one that has a field of them
	// already; empty if Call.Payload has them. Text is their JSON, as it follows other fields.
	Fields troupe.Payload
	Text   []byte

	Finish func(s *Span, err error)
}

// End ends the span at the end of its call; nil is none.
func (s *Span) End(err error) {
	if s != nil {
		s.Finish(s, err)
	}
}

// Begin begins the span of a call, nil if there is to be none. The context is that of the
// rest of the call.
type Begin func(ctx context.Context, call Call) (context.Context, *Span)

// None is for a client without package trace.
func None(ctx context.Context, _ Call) (context.Context, *Span) { return ctx, nil }
