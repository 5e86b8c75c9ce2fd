package testkit

import (
	"testing"
	"testing/synctest"

	"github.com/troupehq/troupe/actors"
)

// Virtual runs f in a testing/synctest bubble with a running daemon, as Start makes
// it: with a Redis in memory, unless cfg has one of the bubble. The time of the
// bubble is virtual, so that retries, schedules and the 25 s of a stop take
// milliseconds. f must use its own t, that of the bubble. Handlers that push get
// their client from k.Client, in f.
func Virtual(t *testing.T, cfg actors.Config, f func(t *testing.T, k *Kit), opts ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		f(t, Start(t, cfg, opts...))
	})
}
