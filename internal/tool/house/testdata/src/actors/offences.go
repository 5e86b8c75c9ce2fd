// Package actors uses what must not be used of the actor library. A line that a
// rule must find ends with want, the linter and a part of its message.
package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/eventstream"
	"github.com/asynkron/protoactor-go/metrics"   // want depguard leaks a callback per spawn
	"github.com/asynkron/protoactor-go/router"    // want depguard its tests race
	"github.com/asynkron/protoactor-go/scheduler" // want depguard its cancel races
)

// D7: an idle actor whose bounded mailbox has dropped a message burns a core for
// ever; a sender to a full one spins.
var (
	_ = actor.Bounded(8)         // want forbidigo spins
	_ = actor.BoundedDropping(8) // want forbidigo spins
)

// D8: data races.
func races(ctx actor.Context, sys *actor.ActorSystem, pid *actor.PID, es *eventstream.EventStream) {
	ctx.SetReceiveTimeout(time.Second)                                               // want forbidigo races
	ctx.ReenterAfter(nil, nil)                                                       // want forbidigo races
	es.SubscribeWithPredicate(func(any) {}, func(any) bool { return true })          // want forbidigo filter in the handler
	_ = actor.NewFuture(sys, time.Second)                                            // want forbidigo data race
	_ = ctx.RequestFuture(pid, "x", time.Second)                                     // want forbidigo data race
	_ = sys.Root.RequestFuture(pid, "x", time.Second)                                // want forbidigo data race
	_ = scheduler.NewTimerScheduler(ctx).SendRepeatedly(time.Second, 1, pid, "tick") // the import is found
}

// D10: replayed on a restart only, in reverse, without the sender.
func replays(ctx actor.Context) {
	ctx.Stash() // want forbidigo replays in reverse
}

// D11: metrics leak and cost; a guardian stays for ever; statistics are not pruned.
func leaks(rs *actor.RestartStatistics) {
	_ = actor.WithMetricProviders(nil)           // want forbidigo leaks
	_ = actor.WithDefaultPrometheusProvider(123) // want forbidigo leaks
	_ = actor.WithGuardian(nil)                  // want forbidigo a guardian for ever
	rs.Fail()                                    // want forbidigo never pruned
	_ = rs.NumberOfFailures(time.Second)         // want forbidigo never pruned
	_ = rs.FailureCount()                        // want forbidigo never pruned
	_ = metrics.ProtoMetrics{}                   // the import is found
	_ = router.NewRoundRobinPool                 // the import is found
}

// The library's strategies: per child, linear, and none escalates.
func decides() {
	_ = actor.NewOneForOneStrategy(1, 1, nil)     // want forbidigo never escalates
	_ = actor.NewAllForOneStrategy(1, 1, nil)     // want forbidigo never escalates
	_ = actor.NewExponentialBackoffStrategy(1, 1) // want forbidigo never escalates
	_ = actor.NewRestartingStrategy()             // want forbidigo never escalates
}

// A fixed 10 s, and a poison pill that waits as long as a backoff.
func givesUp(ctx actor.Context, pid *actor.PID) {
	_ = ctx.StopFuture(pid)   // want forbidigo fixed 10 s
	_ = ctx.PoisonFuture(pid) // want forbidigo fixed 10 s
	ctx.Poison(pid)           // want forbidigo fixed 10 s
}
