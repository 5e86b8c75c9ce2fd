// Package goworkers speaks the wire of go-workers (github.com/jrallison/go-workers) and
// go-workers2 (github.com/digitalocean/go-workers2): a capsule whose Wire is made by New runs
// their jobs beside their live processes, Push makes jobs that they run, Adopt puts back what a
// process of theirs has left in progress, and Stats serves what they serve over HTTP.
//
// Their retry rules hold, not Sidekiq's:
//
//   - a job is retried only if its field retry is true, at most retry_max times, 25 without that
//     field; or if retry is an integer, at most so many times;
//   - the limit is compared before the failure is counted, so a limit of n allows n+1 retries;
//   - the wait is n⁴ + 15 + rand(0…29)·(n+1) seconds, where n is retry_count;
//   - a job that has no retries left goes to the sorted set dead, which go-workers does not have:
//     there such a job is gone. A job that is not to be retried is dropped, as there.
//
// troupe.Kill sends a job to that set, Discard drops it, RetryIn waits exactly so long (if the job
// is to be retried), and Park puts it into schedule, bytes unchanged.
package goworkers
