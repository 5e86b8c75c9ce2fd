// Package browser has the tests of the dashboard in a real browser, Chromium, on data that real
// Sidekiq has written beside that of troupe. It is a module of its own, since nothing else
// needs its dependencies: chromedp, and axe-core among the test data.
//
// What the dashboard has to keep, and which test proves it:
//
//	all pages without JavaScript                TestPages
//	all actions without JavaScript              TestWithoutJavaScript
//	no CSP report, no console error,            TestPages
//	  no axe violation, light and dark
//	320 px wide, no sideways scroll             TestPages
//	no dead link, no forgotten page             TestPages
//	a job is retried by the keyboard alone      TestKeyboard
//	two operators: one Done, the other Gone     TestTwoOperators
//	roles, headers, cookies, proxies            package web: TestMatrix, TestHeaders, TestCookie, TestProxies
//	other addresses need users                  package web: TestServe
//	viewers see no raw argument                 package web: TestNoRawArguments, TestArgumentsAreNotSearched
//	a prefix, kept and stripped                 TestPrefix
//	12345678901234567890 digit by digit         TestBigInteger
//	a page of a million dead jobs               package web: TestAPageCostsAPage, BenchmarkDeadPage
//	bulk: preview, progress, cancel, counts     TestBulk; of many jobs package web: TestAllThatMatch
//	50 processes of 100 processors              package web: TestFleetTreeIsSmall, BenchmarkFleetTree
//	a crash is seen within 2 s                  TestCrashIsSeen
//	a storm: one banner, one cause              TestStorm
//	an unresponsive job shows its stack         TestUnresponsive
//	a fence; a killed process and its rescuer   TestFence, TestKilled
//	a ticked row: nothing is swapped            TestTickedRow
//	a bar of progress, the card of a result     TestProgressAndResult
package browser
