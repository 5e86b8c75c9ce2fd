// Package troupe holds the nouns of a job daemon that speaks Sidekiq: it runs
// jobs which Ruby pushed, pushes jobs which Ruby runs, and stands in the same
// Redis beside Ruby's own processes.
//
// Which package do I need, to
//
//	describe a job and write its handler                         troupe, this package
//	push jobs: now, later, in bulk, several Redis servers        client
//	… in a transaction of your database                          outbox
//	run them: a daemon, or inside a program of yours             actors
//	hear of everything that happens in a daemon                  event
//	look at queues, sets and processes, and act on them          inspect
//	test handlers, pushes and a whole tree                       testkit
//	… cut the network, kill processes                            testkit/chaos
//	… jobs that do as their arguments say                        testkit/script
//	answer probes, serve metrics over HTTP                       ops
//	serve the dashboard                                          web
//	trace jobs with OpenTelemetry                                trace
//	choose what happens when an actor crashes                    supervisor
//	run programs and HTTP services as handlers                   handler
//	choose how jobs are taken from Redis, or bring another way   fetch
//	… prove that way                                             fetch/fetchtest
//	run jobs of Laravel, of go-workers                           wire/laravel, wire/goworkers
//	bring another system of jobs, with its rules of retries      wire, retry
//	read cron lines, and ask when they come                      sched
//
// The nouns of this package, which uses the standard library only:
//
//	Payload     the wire record of one job: an ordered JSON object, edited in place
//	Args        a Go type that stands for the arguments of one class of jobs
//	Job         a payload with its arguments decoded: what a typed handler gets
//	Handler     performs a payload; Middleware wraps it
//	Registry    handlers by class, with the Options of each
//	Iteration   how far a job has come that works through a list: HandleIterable
//	Discard, Kill, RetryIn, Park, MoveTo    what a handler may answer beside nil and an error
//
// # The tree
//
//	launcher                starts and stops the rest, holds the one deadline
//	├─ heartbeat            tells Redis and Sidekiq's Web UI that we live, takes signals
//	├─ poller               moves due jobs from the schedule and retry sets to their queues
//	├─ rescuer              puts back what a dead process held
//	└─ default              a manager, one per capsule
//	   ├─ fetcher           takes jobs from the capsule's queues
//	   ├─ processor-0       runs one job at a time
//	   └─ processor-1
//
// # Push
//
// A class of jobs is a Go type. Its fields are Ruby's positional arguments, so
// that perform(42, 1999, "EUR") fits in both directions.
//
//	type ChargeCard struct {
//		AccountID int64  `arg:"0"`
//		Cents     int64  `arg:"1"`
//		Currency  string `arg:"2"` // ISO 4217
//	}
//
//	func (ChargeCard) Class() string { return "Billing::ChargeCard" }
//	func (ChargeCard) Defaults() troupe.Options {
//		return troupe.Options{Queue: "critical", Retries: troupe.Times(5)}
//	}
//
//	c := client.New(rdb)
//	jid, err := c.Push(ctx, ChargeCard{AccountID: 42, Cents: 1999, Currency: "EUR"})
//	jid, err = c.Push(ctx, ChargeCard{AccountID: 42, Cents: 500, Currency: "EUR"}, client.In(10*time.Minute))
//
// # Run
//
// A nil error means done; any other is stored as a retry by the job's policy,
// unless it says otherwise. Cancelling ctx stops the daemon in good order.
//
//	var jobs troupe.Registry
//	troupe.Handle(&jobs, func(ctx context.Context, j *troupe.Job[ChargeCard]) error {
//		err := gateway.Charge(ctx, j.JID, j.Args.AccountID, j.Args.Cents, j.Args.Currency)
//		if errors.Is(err, errDeclined) {
//			return troupe.Discard(err)
//		}
//		return err
//	})
//	err := actors.Run(ctx, actors.Config{
//		Redis:       rdb,
//		Registry:    &jobs,
//		Concurrency: 10,
//		Queues:      actors.Weighted{"critical": 3, "default": 1},
//	})
//
// # Test
//
// A handler is a function and can be called. A whole tree can be started,
// looked at and broken:
//
//	testkit.Virtual(t, actors.Config{Registry: &jobs}, func(t *testing.T, kit *testkit.Kit) {
//		kit.Crash("launcher/default/processor-0", errors.New("boom"))
//		kit.Await("the restart", func() bool {
//			return kit.Tree().Find("launcher/default/processor-0").Restarts == 1
//		})
//	})
package troupe
