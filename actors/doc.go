// Package actors runs jobs: a daemon made of an actor supervision tree.
//
//	launcher
//	├ heartbeat       beats, leases, statistics, remote signals
//	├ rescuer         puts back the jobs of dead processes
//	├ poller          due jobs of retry and schedule into their queues
//	└ default         the manager of a capsule
//	  ├ fetcher       turns idle slots into fetch calls
//	  └ processor-0…  control planes of the slots
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
// # Who owns what
//
// No message carries a job and no user code runs in an actor. What must survive
// a crash (units in progress, slots, flags, the phase of the stop) is in the
// capsule and the Daemon, which outlive every actor; each incarnation derives
// its next step from there. So any actor may crash between any two lines: no
// job is lost, run twice at once in one process, or left hanging.
//
// Reading order: daemon.go, capsule.go, slot.go, processor.go, executor.go,
// settler.go, stop.go; cell.go for what is wrapped around the actor library.
package actors
