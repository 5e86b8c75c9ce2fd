package env

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe/internal/test/harness"
)

func TestLeases(t *testing.T) {
	const lease = 30 * time.Second
	synctest.Test(t, func(t *testing.T) {
		l := NewLeases(lease)
		want := func(grace time.Duration) {
			t.Helper()
			harness.Equal(t, "grace", l.Grace(), grace)
		}
		want(0)
		for range 5 { // a renewal fails now and then
			l.Renewed()
			time.Sleep(2 * lease / 3)
			want(0)
		}
		l.Renewed()
		time.Sleep(lease * 3 / 4)
		want(0)
		time.Sleep(time.Nanosecond)
		l.Answered() // it has leases: an answer to something else does not renew them
		want(lease / 2)
		time.Sleep(time.Hour)
		want(lease / 2)
		l.Renewed()
		want(lease / 2)
		time.Sleep(lease / 3)
		l.Renewed()
		want(lease / 6)
		time.Sleep(lease / 6)
		want(0)

		l = NewLeases(lease) // a process without leases
		time.Sleep(lease)
		want(lease / 2)
		l.Answered()
		time.Sleep(lease / 2)
		want(0)
	})
}
