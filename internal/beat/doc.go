// Package beat holds the Redis side of the heartbeat: what a process tells
// Sidekiq's Web UI and API about itself, the totals, the job metrics, and the
// list of processes. It has no goroutine, no clock and no state but a Flusher's
// and a Metrics's; the heartbeat actor calls it.
//
// Each beat, every Period:
//
//	Flusher.Flush   totals since the last beat            stat:processed, stat:failed, both also per UTC day
//	Metrics.Flush   runs of each class since then         j|MINUTE, histograms of run times
//	Beat            1. PING, timed
//	                2. jobs that run now,                 IDENTITY:work (and :workers)
//	                   the supervision tree,              troupe:tree:IDENTITY
//	                   who I am, alive for Lease;         processes, IDENTITY, IDENTITY-signals
//	                   signals sent by the UI
//
// Once in a while Cleanup, by whoever gets the lock. At exit, when no beat can
// follow any more: a last Flush of both, then Clear.
//
// On a cluster the keys of one step live in different slots: the steps are
// plain pipelines there, so a reader may see half of one.
package beat
