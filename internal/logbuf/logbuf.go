// Package logbuf keeps log lines for a moment, so that many leave with one
// write: a system call for every line costs more than a short job.
package logbuf

import (
	"io"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

const (
	maxAge  = 100 * time.Millisecond
	maxSize = 64 << 10

	// maxWarnAge is short enough for what explains a crash, and long enough for
	// fifty lines of a storm of failures.
	maxWarnAge = time.Millisecond
)

// Writer is a zerolog.LevelWriter in front of another writer. A line waits for at
// most 100 ms, and for 64 KiB of company. One at warn takes along at once what
// waits before it, unless another one did so within the last millisecond: then it
// leaves when that is over. One at error or above, or without a level, never
// waits. So what explains a crash is not in memory for longer than a millisecond.
// The order of lines is kept. It is safe for concurrent use.
type Writer struct {
	out io.Writer

	mu    sync.Mutex
	buf   []byte
	timer *time.Timer
	armed bool
	err   error // of a write that nobody waited for

	pause  *time.Timer // of the lines at warn
	paused bool        // it runs
	warned bool        // buf has one of them
}

var _ zerolog.LevelWriter = (*Writer)(nil)

// New returns a Writer in front of out. Flush it before the program ends.
func New(out io.Writer) *Writer { return &Writer{out: out, buf: make([]byte, 0, maxSize)} }

// Write is WriteLevel of a line without a level: it does not wait.
func (w *Writer) Write(line []byte) (int, error) { return w.WriteLevel(zerolog.NoLevel, line) }

// WriteLevel adds a line. An error is that of this line's write or of an earlier
// one that a timer made: zerolog hands it to its ErrorHandler.
func (w *Writer) WriteLevel(level zerolog.Level, line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.buf)+len(line) > maxSize {
		w.flush()
	}
	w.buf = append(w.buf, line...)
	switch {
	case level >= zerolog.ErrorLevel || len(w.buf) >= maxSize:
		w.flush()
	case level == zerolog.WarnLevel && w.paused:
		w.warned = true
	case level == zerolog.WarnLevel:
		w.flush()
		w.rest()
	case !w.armed:
		w.arm()
	}
	err := w.err
	w.err = nil
	return len(line), err
}

func (w *Writer) arm() {
	w.armed = true
	if w.timer == nil {
		w.timer = time.AfterFunc(maxAge, w.due)
		return
	}
	w.timer.Reset(maxAge)
}

func (w *Writer) due() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = false
	w.flush()
}

// rest begins the millisecond in which lines at warn wait for each other.
func (w *Writer) rest() {
	w.paused = true
	if w.pause == nil {
		w.pause = time.AfterFunc(maxWarnAge, w.rested)
		return
	}
	w.pause.Reset(maxWarnAge)
}

func (w *Writer) rested() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.paused = w.warned; w.paused {
		w.flush()
		w.rest()
	}
}

// Flush writes what waits and returns the first error that nobody was told yet.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flush()
	err := w.err
	w.err = nil
	return err
}

// flush writes what waits. What a writer refuses is dropped: a full disk must not
// fill the memory as well.
func (w *Writer) flush() {
	w.warned = false
	if len(w.buf) == 0 {
		return
	}
	if _, err := w.out.Write(w.buf); err != nil && w.err == nil {
		w.err = err
	}
	if cap(w.buf) > 2*maxSize { // one huge line
		w.buf = make([]byte, 0, maxSize)
	}
	w.buf = w.buf[:0]
}
