// This file reads what the processes of a test tell: their output, its JSON log
// lines, and on Linux what /proc has of them.

package harness

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Buffer keeps what is written to it. It is safe for concurrent use. The zero Buffer is empty.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write adds to the buffer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String is all that was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Count tells how often text is in it.
func (b *Buffer) Count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Count(b.b.Bytes(), []byte(text))
}

// Lines are the lines of a JSON log.
func (b *Buffer) Lines(t Test) (lines []Line) {
	t.Helper()
	for text := range strings.Lines(b.String()) {
		var line Line
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("log line %q: %v", text, err)
		}
		lines = append(lines, line)
	}
	return lines
}

// Line is one line of a JSON log.
type Line = map[string]any

// Str is a field that is a string, "" if it is none.
func Str(l Line, key string) string { s, _ := l[key].(string); return s }

// Strs is a field that is a list of strings.
func Strs(l Line, key string) (out []string) {
	list, _ := l[key].([]any)
	for _, v := range list {
		s, _ := v.(string)
		out = append(out, s)
	}
	return out
}

// Drain is the drain report of a daemon that has logged "stopped" once.
func Drain(tb testing.TB, p interface{ Logged(string) []Line }) Line {
	tb.Helper()
	lines := p.Logged("stopped")
	if len(lines) != 1 {
		tb.Fatalf("%d drain reports in the log", len(lines))
	}
	report, _ := lines[0]["drain"].(Line)
	return report
}

// CPU is the time that a process has spent on a processor so far.
func CPU(tb testing.TB, pid int) time.Duration {
	tb.Helper()
	fields, err := Stat(pid)
	if err != nil {
		tb.Fatal(err)
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond // they are ticks
}

// Stat are the fields of /proc/PID/stat from the state on: what is before it is
// the name, which may have blanks.
func Stat(pid int) ([]string, error) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])), nil
}
