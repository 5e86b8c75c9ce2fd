// Package demo is the command "troupe demo": a whole troupe at work in one
// process, shown live.
//
//	store     the Redis: an embedded one, or the user's
//	jobs      the classes of jobs and what they do
//	producer  pushes a mixed load through the public client
//	measures  what the demo measures itself: pushes, latencies
//	census    what stands in Redis
//	snapshot  all of that with the daemon's own statistics, at one instant
//	live      shows snapshots on a terminal, around the pages of troupe top (view, notes)
//	lines     writes them as log lines anywhere else
//	show      starts it all, ends it by the real stop protocol
//	finale    the last words: figures, drain report, what stays behind
//
// What the daemon does here is what it does anywhere: it is used by its public
// packages only, and every figure is measured.
package demo
