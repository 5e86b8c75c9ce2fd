// Package sched brings jobs whose time has come from the sets schedule and
// retry back into their queues, and decides when to look.
//
// # Promotion
//
// Promote moves one batch: it peeks at the members that are due, computes in Go
// what each is to become (client middleware, a fresh enqueued_at), and lets one
// script carry it out. For each member that is still in the set, the script
// writes the destination first and removes the member after it, so a job is at
// every instant in one of the two; the exact bytes are the guard, so that of
// several pollers, Ruby's among them, one wins. Members that are no valid job
// go to the dead set as they are. Those that cannot be moved now (their queue
// is a key of another type, middleware fails on them) stay where they are, are
// tried again later, and do not hold up the ones behind them. The two sets
// share nothing: a backlog in one does not delay the other.
//
// # When to look
//
// Every process looks at Sidekiq's random interval (see Interval). Two of the
// fleet do more (see Watch): they sleep until the next entry is due and are told
// by Redis when a nearer one is added. One leads; the other is 25 ms behind it
// and has nothing to do while the first one lives, so that a death is covered
// before it is noticed.
package sched
