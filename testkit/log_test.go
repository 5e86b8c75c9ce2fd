package testkit

import (
	"io"
	"os"
	"testing"
	"testing/synctest"
)

// A log that outlives its test neither panics nor races with the test's end.
func TestALogThatOutlivesItsTest(t *testing.T) {
	var log *testLog
	gate, done := make(chan struct{}), make(chan struct{})
	t.Run("ended", func(t *testing.T) {
		log = newTestLog(t)
		if _, err := log.Write([]byte("while it runs\n")); err != nil {
			t.Error(err)
		}
		go func() {
			defer close(done)
			<-gate
			_, _ = log.Write([]byte("a line of a test that has ended\n"))
		}()
	})
	if log.to != io.Writer(os.Stderr) {
		t.Error("what comes now goes to the log of a test that has ended")
	}
	close(gate)
	<-done
	synctest.Test(t, func(t *testing.T) { _, _ = newTestLog(t).Write([]byte("in a bubble\n")) })
}
