package testkit

import (
	"io"
	"os"
	"sync"
	"testing"

	"github.com/rs/zerolog"
)

// testLog writes to the log of a test while that takes it. An unresponsive job may end later
// than its test, and whoever logs then makes package testing panic: what it says goes
// to stderr.
type testLog struct {
	mu sync.Mutex
	to io.Writer
}

func newTestLog(tb testing.TB) *testLog {
	l := &testLog{to: zerolog.NewTestWriter(tb)}
	tb.Cleanup(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.to = os.Stderr
	})
	return l
}

func (l *testLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(line)
}
