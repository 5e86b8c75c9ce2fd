// Package prepare is the way by which the poller and package inspect reach what a client
// does not export.
package prepare

import (
	"context"
	"time"

	"github.com/troupehq/troupe"
)

// Job makes p ready to enter its queue again through a *client.Client, as the daemon's
// poller does with a member of schedule or retry: defaults under what p has, a jid and
// created_at if missing, client middleware, a fresh enqueued_at. A field "at" is dropped,
// whoever set it: obeying it would put the job back where it came from. p itself may be
// edited. Nothing is sent.
//
// A job whose class, arguments or tags Sidekiq's client would refuse is let through: what runs as it
// is fetched is retried, too.
//
// The result is nil if middleware stopped the job. A *client.FieldError says that p names no
// queue; a *client.MiddlewareError that the middleware, not p, is at fault. Bytes that
// are not UTF-8 pass, as they came.
//
// Package client sets it.
var Job func(ctx context.Context, client any, p *troupe.Payload, now time.Time) (*troupe.Payload, error)
