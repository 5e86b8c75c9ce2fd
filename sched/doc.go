// Package sched reads the times of periodic jobs: cron lines as Ruby's fugit reads them, which is
// what sidekiq-cron does, and intervals. Its Parse reads what a [troupe.Periodic] says, so that a
// program can check an entry, or tell when it comes next.
//
// A tick is a second whose wall clock in the line's zone fits the line. A time of day that a change
// of the clocks skips does not come, and one that it repeats comes twice, as with fugit; [Schedule.Once]
// is for those who want each once.
//
// [troupe.Periodic]: https://pkg.go.dev/github.com/troupehq/troupe#Periodic
package sched
