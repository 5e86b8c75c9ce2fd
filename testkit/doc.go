// Package testkit tests jobs: what a program pushes, what a handler does, and how
// a whole daemon behaves, in failure as well.
//
// Fake and Inline are clients without Redis, with RequirePushed and its like to
// ask what was pushed. Perform runs a handler as the daemon would. Start runs a
// whole daemon inside the test: on a clean database of a real Redis, or in memory,
// where it also works in the virtual time of a testing/synctest bubble (a stop
// deadline of 25 s then takes milliseconds).
//
//	kit := testkit.Start(t, actors.Config{Registry: &jobs}, testkit.Strict())
//	kit.Push(ChargeCard{AccountID: 42, Cents: 1999, Currency: "EUR"})
//	kit.Await("done", func() bool { return kit.Stats().Processed == 1 })
//	kit.Expect(testkit.Restarts("launcher/default/processor-0").Times(1), func() {
//		kit.Crash("launcher/default/processor-0", errors.New("boom"))
//	})
//
// A condition that does not come true fails the test with the tree printed.
// docs/testing.md is the guide.
package testkit
