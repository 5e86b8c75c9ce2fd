// Package testkit tests jobs: what a program pushes, what a handler does, and how
// a whole daemon behaves, in failure as well.
//
// Fake and Inline are clients without Redis, with RequirePushed and its like to
// ask what was pushed. Perform runs a handler as the daemon would. Virtual runs a
// whole daemon in memory and in virtual time, where the 25 s of a stop take
// milliseconds; Start runs one in real time or in a bubble of the test's own.
//
//	testkit.Virtual(t, actors.Config{Registry: &jobs}, func(t *testing.T, k *testkit.Kit) {
//		k.Push(ChargeCard{AccountID: 42, Cents: 1999, Currency: "EUR"})
//		k.Await("the charge", func() bool { return k.Stats().Processed == 1 })
//		k.Expect(testkit.Restarts("launcher/default/processor-0").Times(1), func() {
//			k.Crash("launcher/default/processor-0", errors.New("boom"))
//		})
//	}, testkit.Strict())
//
// A condition that does not come true fails the test with the tree printed.
// testkit/script has jobs that fail, hang and panic as they are told, and
// testkit/chaos breaks networks, Redis and processes. docs/testing.md is the guide.
package testkit
