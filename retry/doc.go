// Package retry tells how failed jobs are retried: by Sidekiq 8's rules, which the
// daemon has built in, or by the Rules of another system of jobs, which a wire.Wire brings.
//
// Sidekiq's rules:
//
//	payload "retry"      false: dropped, death handlers run
//	                     integer N: N retries; 0 or less: dead at the first failure
//	                     true, absent, null, any other value: the class's Retries,
//	                     else actors.Config.MaxRetries
//	"retry_for"          seconds since the first failure; replaces the count, and
//	                     the class's Retries
//	"retry_queue"        where the retry goes, else the class's RetryQueue, else the
//	                     queue it was fetched from
//	"dead": false        an exhausted job is dropped, death handlers run; absent or
//	                     null: the class's Dead
//	"backtrace"          true: all lines are stored; N: the first N; absent or null:
//	                     the class's Backtrace
//	handler's error      troupe.Discard: dropped; troupe.Kill: exhausted now;
//	                     troupe.RetryIn, RetryExactly: its wait; troupe.Park: no failure at all,
//	                     the same bytes wait in schedule
//	class's RetryIn      the wait, troupe.Exactly a wait, KillDelay or DiscardDelay
//	wait                 count⁴ + 15 s, or what was asked for, plus a jitter below
//	                     10·(count+1) s unless it is exact; count is 0 at the first failure
//	exhausted            the class's Exhausted is asked, then dead, death handlers run
//
// What Sidekiq would lose is kept: an odd "retry_count" counts as the number it
// resembles, or as a first retry; a job that Ruby could not
// write back (see troupe.Payload.Rewritable) dies with its bytes unchanged.
//
// A job that the shutdown interrupts has not failed.
package retry
