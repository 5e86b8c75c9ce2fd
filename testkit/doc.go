// Package testkit runs a whole daemon inside a test: on a clean database of a
// real Redis, or in memory, where it also works in the virtual time of a
// testing/synctest bubble (a stop deadline of 25 s then takes milliseconds).
//
//	kit := testkit.Start(t, actors.Config{Registry: &jobs})
//	kit.Push(ChargeCard{42, 1999, "EUR"})
//	kit.Await("done", func() bool { return kit.Stats().Processed == 1 })
//	kit.Crash("launcher/default/processor-0", errors.New("boom"))
//	kit.AwaitTree("restarted", func(tree actors.Tree) bool {
//		return tree.Restarts("launcher/default/processor-0") == 1
//	})
//
// A condition that does not come true fails the test with the tree printed.
package testkit
