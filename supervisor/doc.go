// Package supervisor decides what happens when an actor of the tree crashes.
//
// Each supervisor of the tree (the launcher over heartbeat, poller, rescuer and
// managers; each manager over its fetcher and processors) has one strategy. A
// Spec describes it in OTP's words: intensity and period are the restart
// budget of the whole supervisor, not of one child; past it the supervisor
// gives up and escalates to its own supervisor, and at the root the daemon
// stops in good order. A crash of a user's job (JobCrash) restarts its
// processor at once and never spends the budget.
//
// FromProtoactor makes a Strategy of any that is written for the actor library.
package supervisor

import _ "github.com/troupehq/troupe/supervisor/internal/only64" // for all that have strategies or actors
