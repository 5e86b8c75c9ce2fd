package job

import (
	"context"

	"github.com/troupehq/troupe"
)

// PushCall is a call of a client that pushes. In that of a bulk a text is "" until it is known,
// and if it is not the same for all jobs.
type PushCall struct {
	Queue, Class, JID string
	Bulk              bool
	Jobs              int             // that it has had so far
	Payload           *troupe.Payload // of PushPayload, which BeginPush may edit; else nil
}

// PushSpan is that of a call. Package trace makes it: client must not link OpenTelemetry.
type PushSpan struct {
	PushCall

	// Fields are what each job of the call is to have, but for one that has a field of them
	// already; empty if PushCall.Payload has them. Text is their JSON, as it follows other fields.
	Fields troupe.Payload
	Text   []byte

	Finish func(s *PushSpan, err error)
}

// End ends the span at the end of its call; nil is none.
func (s *PushSpan) End(err error) {
	if s != nil {
		s.Finish(s, err)
	}
}

// BeginPush begins the span of a call, nil if there is to be none. The context is that of the
// rest of the call.
type BeginPush func(ctx context.Context, call PushCall) (context.Context, *PushSpan)

// NoSpan is for a client without package trace.
func NoSpan(ctx context.Context, _ PushCall) (context.Context, *PushSpan) { return ctx, nil }
