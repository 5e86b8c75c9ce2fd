// Package actors runs jobs: a daemon made of an actor supervision tree.
//
//	launcher
//	├ heartbeat       beats, leases, statistics, remote signals
//	├ rescuer         rescues the jobs of dead processes
//	├ poller          due jobs of retry and schedule into their queues
//	└ default         the manager of a capsule
//	  ├ fetcher       owns the goroutine that fetches jobs
//	  └ processor-0…  each owns a goroutine that runs them
//
// A whole main function is one line:
//
//	os.Exit(actors.Main(actors.Config{Redis: rdb, Registry: &jobs, Logger: log}))
//
// Inside a service with a main of its own, Run stops in good order when its
// context ends; New, Start, Quiet and Stop are the same in parts. Set
// Config.Embedded there: without it Stop in Sidekiq's Web UI ends the daemon, and
// the service goes on without it.
//
// # Actors supervise, goroutines work
//
// Go cannot kill a goroutine, so a job runs in one that no actor waits for, and no user
// code runs in an actor. The way of a job:
//
//  1. The fetch goroutine (intake.go) asks for as many jobs as there are free workers plus
//     the look-ahead, and puts them into the inbox of the capsule.
//  2. Each worker (worker.go) takes the next job from there, runs it, and takes another.
//  3. A run (internal/run) calls middleware and handler, and decides the
//     outcome. A compare-and-swap in the ledger says who may store it: the end of the job,
//     the deadline of a stop, or a fence.
//  4. The settler (internal/work) keeps acks until the next fetch call carries them, or half a
//     millisecond.
//  5. A panic or Goexit is stored as a retry. Then the worker ends, which crashes its
//     processor. The strategy restarts the processor, which starts a new worker.
//  6. A processor that restarts for another reason finds its worker at its job, and adopts
//     it. One that is suspended has a worker that takes no job.
//
// No message carries a job. What must survive a crash (jobs in progress, slots, flags, the
// phase of the stop) is in the capsule and the Daemon, which outlive every actor; each
// incarnation derives its next step from there. So any actor may crash between any two
// lines: no job is lost, run twice at once in one process, or left hanging.
//
// Reading order: daemon.go, capsule.go, intake.go, worker.go, internal/run/run.go and
// outcome.go, internal/work/settler.go, stop.go; internal/supervised for what stands around
// the actor library.
package actors
