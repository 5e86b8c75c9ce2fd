// Package client pushes jobs: into a queue, into the schedule set, one or
// thousands at a time, as bytes that Ruby Sidekiq 6, 7 and 8 would have
// written themselves. A program that only pushes needs nothing else, and does
// not link the daemon.
//
//	c := client.New(rdb)
//	jid, err := c.Push(ctx, ChargeCard{AccountID: 42, Cents: 1999, Currency: "EUR"})
//	jid, err = c.Push(ctx, ChargeCard{AccountID: 42, Cents: 500, Currency: "EUR"}, client.In(10*time.Minute))
//	jids, err := client.PushBulk(ctx, c, slices.Values(overdue))
//
// Queue, retries and the like come from the options of the push, then from the
// method Defaults of the job's type (see troupe.Options), then from WithDefaults.
//
// A handler pushes through FromContext.
//
// # What an error means
//
// A push that was not made is an error. Of them ErrStopped is no fault: middleware has stopped it.
//
// A *FieldError, an *troupe.EncodeError, an *troupe.ArgsError, a *MiddlewareError
// or an error of the type's Defaults comes before anything is sent. An *UnavailableError means that
// Redis is away or cannot serve for now, and reports whether the push may have
// happened all the same (a connection cut, a time-out): the client never repeats it
// by itself, whatever MaxRetries the given redis client has, because that would
// run jobs twice. Who repeats it gets at-least-once delivery, and should pass
// JID so that both copies carry one id.
//
// The one exception is a server that has just lost its mastership. It answers
// READONLY, NOREPLICAS or UNBLOCKED, which proves that it did nothing: then what
// was refused is sent once more over a new connection.
//
// WithBuffer keeps such pushes in memory until Redis is back, up to a bound.
package client
