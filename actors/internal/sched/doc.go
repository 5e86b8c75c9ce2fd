// Package sched brings jobs whose time has come from the sets schedule and
// retry back into their queues, and decides when to look.
//
// # Promotion
//
// Promote moves one batch in two steps. A script returns what is due by the clock of
// Redis, bounded by count and bytes. Go prepares it: client middleware, a fresh
// enqueued_at. A second script carries it out: for each member that is still due,
// byte for byte, it writes the destination first and removes the member after it. So
// a job is at every instant in one of the two, and of several pollers, Ruby's among
// them, one wins. Members that are no valid job go to the dead set as they are. Those
// that cannot be moved now (their queue is a key of another type, middleware fails on
// them) stay where they are, are tried again later, and do not hold up the others.
// In a backlog every other batch takes the newest. The two sets share nothing.
//
// A batch that is lost on its way is asked for in smaller pieces. A single member
// that the link does not carry goes to its queue inside of Redis, as it is; on a
// cluster it waits beside the set for an hour.
//
// # When to look
//
// Every process looks at Sidekiq's random interval. One of the fleet
// leads (see Lead): it holds a lock of 1.8 s, which the first script renews every
// second. The leader looks every 500 ms, at the next due score, and when a client of
// troupe pushes. So a job that was added d ahead is late by at most 500 ms - d and a
// round trip. When the leader dies, the standby takes the lock at its end: jobs are
// 2 s late at most. Two leaders do no harm.
package sched
