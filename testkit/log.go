package testkit

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"
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

// shortStacks writes log lines with their stacks cut to the place of the panic: a
// test's log is read by people.
type shortStacks struct{ to io.Writer }

// stackKey is how a line has a stack: as one string.
var stackKey = []byte(`"stack":"`)

// stackFrames is how many frames are left.
const stackFrames = 3

func (w shortStacks) Write(line []byte) (int, error) {
	if _, err := w.to.Write(shorten(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}

func shorten(line []byte) []byte {
	at := bytes.Index(line, stackKey)
	if at < 0 {
		return line
	}
	at += len(stackKey) - 1
	var stack string
	d := json.NewDecoder(bytes.NewReader(line[at:]))
	if d.Decode(&stack) != nil {
		return line
	}
	short, err := json.Marshal(frames(stack))
	if err != nil {
		return line
	}
	return append(append(bytes.Clone(line[:at]), short...), line[at+int(d.InputOffset()):]...)
}

// frames returns where the stack has panicked, innermost first.
func frames(stack string) string {
	lines := strings.Split(stack, "\n")
	from := 1 // the first names the goroutine
	for i, line := range lines {
		if strings.HasPrefix(line, "panic(") || strings.HasPrefix(line, "runtime.Goexit(") {
			from = i + 2
		}
	}
	var out []string
	for i := from; i+1 < len(lines) && len(out) < stackFrames; i += 2 { // function, file
		out = append(out, strings.TrimSpace(lines[i+1]))
	}
	return strings.Join(out, " from ")
}
