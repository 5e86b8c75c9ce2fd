package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
)

const (
	maxLine = 4 << 10 // bytes of one line of output that are logged

	// A program may write lineBurst lines at once and linesPerSecond from then
	// on; what exceeds that is read and counted, but not logged, so that a flood
	// costs neither memory nor the log.
	lineBurst      = 1000
	linesPerSecond = 100

	tailBytes = 4 << 10
	tailLines = 10
)

// lines logs what is written to it, line by line. It never fails. Used by one
// goroutine.
type lines struct {
	log     zerolog.Logger
	budget  *budget
	line    []byte // begun, at most maxLine
	cut     int    // bytes of it beyond maxLine
	skipped int    // lines not logged since the last one that was
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	n := len(p)
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			l.add(p)
			return n, nil
		}
		l.add(p[:i])
		p = p[i+1:]
		if !l.flush() { // the budget is spent: the rest need not be looked at line by line
			last := bytes.LastIndexByte(p, '\n') + 1
			l.skipped += bytes.Count(p[:last], []byte("\n"))
			p = p[last:]
		}
	}
}

func (l *lines) add(p []byte) {
	room := min(maxLine-len(l.line), len(p))
	l.line = append(l.line, p[:room]...)
	l.cut += len(p) - room
}

// flush ends the line; false when it was counted instead of logged.
func (l *lines) flush() (logged bool) {
	text := bytes.TrimSuffix(l.line, []byte("\r"))
	if logged = l.budget.take(); logged {
		ev := l.log.Info() //nolint:zerologlint // sent below
		if l.cut > 0 {
			ev = ev.Int("cut_bytes", l.cut)
		}
		if l.skipped > 0 {
			ev = ev.Int("skipped_lines", l.skipped)
		}
		ev.Str("line", strings.ToValidUTF8(string(text), "\ufffd")).Msg("job output")
		l.skipped = 0
	} else {
		l.skipped++
	}
	l.line, l.cut = l.line[:0], 0
	return logged
}

// close logs what is left: a last line without line break, and how many lines
// were skipped at the end.
func (l *lines) close() {
	if len(l.line) > 0 {
		l.flush()
	}
	if l.skipped > 0 {
		l.log.Warn().Int("skipped_lines", l.skipped).Msg("job output skipped")
	}
}

// budget is a token bucket, shared by the two streams of a program.
type budget struct {
	mu     sync.Mutex
	tokens float64
	at     time.Time
}

func newBudget() *budget { return &budget{tokens: lineBurst, at: time.Now()} }

func (b *budget) take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.tokens = min(lineBurst, b.tokens+now.Sub(b.at).Seconds()*linesPerSecond)
	b.at = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// tail keeps the end of what is written to it. It never fails.
type tail struct {
	b   []byte
	cut bool // b does not begin where the stream did
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if len(p) > tailBytes {
		p, t.b, t.cut = p[len(p)-tailBytes:], t.b[:0], true
	}
	t.b = append(t.b, p...)
	if over := len(t.b) - tailBytes; over > 0 {
		t.b, t.cut = append(t.b[:0], t.b[over:]...), true
	}
	return n, nil
}

// String returns the last lines, at most tailLines and tailBytes, as valid UTF-8
// without blanks around.
func (t *tail) String() string {
	b := t.b
	for i := 0; t.cut && i < utf8.UTFMax-1 && len(b) > 0 && !utf8.RuneStart(b[0]); i++ {
		b = b[1:] // the rest of a character
	}
	text := strings.TrimSpace(strings.ToValidUTF8(string(b), "\ufffd"))
	all := strings.Split(text, "\n")
	if len(all) > tailLines {
		all = all[len(all)-tailLines:]
	}
	return strings.Join(all, "\n")
}

// result keeps what is written to it, at most troupe.MaxResult bytes. It never fails.
type result struct {
	b []byte
	n int // bytes that were written
}

// Write implements io.Writer.
func (r *result) Write(p []byte) (int, error) {
	r.b = append(r.b, p[:min(len(p), troupe.MaxResult-len(r.b))]...)
	r.n += len(p)
	return len(p), nil
}

// set makes it the result of the job that ctx belongs to.
func (r *result) set(ctx context.Context) error {
	if r.n > len(r.b) {
		return fmt.Errorf("the program has written %d bytes to stdout, expected at most %d (troupe.MaxResult)", r.n, troupe.MaxResult)
	}
	text := bytes.TrimRight(r.b, "\r\n")
	switch {
	case len(text) == 0:
		return nil
	case json.Valid(text):
		return troupe.SetResult(ctx, json.RawMessage(text))
	}
	return troupe.SetResult(ctx, strings.ToValidUTF8(string(text), "\ufffd"))
}
