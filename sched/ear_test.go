package sched_test

import (
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe/sched"
	"github.com/troupehq/troupe/testkit"
)

// Only the connection that listens is half open: nothing else would ever tell.
func TestAWatcherGivesUpAnEarThatIsHalfOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faults := testkit.NewFaults(t, testkit.NewMemory(t).Options())
		w := startWatch(t, faults.Client(), "host:1:a")
		synctest.Wait()
		time.Sleep(30 * time.Second)
		if n, _, _ := w.count(sched.Elected); n != 1 {
			t.Fatalf("elected %d times", n)
		}
		select {
		case err := <-w.done:
			t.Fatalf("Watch has ended: %v", err)
		default:
		}
		faults.Add(testkit.Fault{Command: "ping", Times: 1, Do: testkit.Swallow})
		time.Sleep(15 * time.Second)
		select {
		case err := <-w.done:
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("it ended with %v", err)
			}
		default:
			t.Error("it still listens after 15 s")
			_ = w.stop()
		}
	})
}
