// Package redisconn makes, checks and classifies the daemon's own Redis
// connections.
//
// The daemon never works on a client it was given: only the options are used
// (Derive), since it needs what an application seldom sets. Nothing is repeated
// silently (a fetch that ran twice would lose the jobs of the first run), a
// blocking command fits into the read timeout, and a context's deadline bounds
// a command (its cancellation does not: go-redis only looks at the deadline). A
// command given up at a deadline may still be carried out, so a pop that keeps
// nothing in progress must not have one shorter than its own wait. Closing a derived
// client closes nothing of the user's.
//
// One thing is shared: a client made by redis.NewFailoverClient dials through
// the sentinel connection that it owns, and so does what is derived from it.
// Such a client must stay open as long as the daemon runs.
package redisconn
