// Package laravel runs the jobs of Laravel's Redis queue, beside its own workers, and pushes jobs
// for them.
//
//	w, err := laravel.New(laravel.Options{Prefix: "laravel_database_"})
//	capsule := actors.Capsule{Wire: w, Concurrency: 10}
//
// A job that PHP pushes by name, as in Queue::push('resize', ['id' => 1], 'go'), is run by the
// handler of the class "resize", with the data as its one argument. A job that is a PHP object is
// run by the handler of its class, which reads the object by Command.
//
// A job that runs is in the reserved set of its queue, as Laravel has it; its lease is renewed.
// A process that dies leaves it to whoever looks at the queue first, Laravel's worker or a
// capsule, and the attempt counts.
//
// Retries are Laravel's: maxTries, maxExceptions, backoff, retryUntil, timeout and failOnTimeout
// of the job, else the Options. troupe.Kill fails a job, troupe.Discard deletes it, troupe.RetryIn
// releases it, and troupe.Park releases it without counting the attempt.
//
// docs/laravel.md is the guide.
package laravel
