// Package chaos tests what becomes of jobs when things fail: the network, Redis,
// and whole processes.
//
// A Proxy stands between clients and a Redis and cuts, delays, repeats or refuses
// single commands. A Process is a daemon as it runs in production, to be killed
// and paused. An Inventory says where each job of a Redis is, and a Recorder how
// often each has run, so that RequireNothingLost and RequireAtMostRuns can tell
// whether all is well afterwards.
package chaos
