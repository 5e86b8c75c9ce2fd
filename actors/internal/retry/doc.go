// Package retry decides what becomes of a job that failed: retried later, put
// among the dead, or dropped, by the rules that the public package retry tells. It
// computes the bytes and the score; storing them is one step of the fetcher that holds
// the job. It touches neither Redis nor the clock, and one Policy may be used by any
// number of goroutines.
package retry
