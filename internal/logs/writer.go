// Package logs has what log lines about jobs share, and a Writer between a logger and what it writes
// to. There lines wait for a moment, so that many leave with one write: a system call for every line
// costs more than a short job. And nobody who logs is held up by a log that nobody reads.
package logs

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

const (
	maxAge  = 100 * time.Millisecond
	maxSize = 64 << 10 // of one write, but for a longer line

	// maxWarnAge is short enough for what explains a crash, and long enough for
	// fifty lines of a storm of failures.
	maxWarnAge = time.Millisecond

	// patience is how long a line waits for room, or at error to be written. A write that takes longer
	// blocks: then nobody waits for it.
	patience = 200 * time.Millisecond

	maxWaiting = 1 << 20 // bytes of lines below error that wait
	maxErrors  = 2 << 20 // and of all lines
)

// Writer is a zerolog.LevelWriter in front of another writer. A line waits for at
// most 100 ms, and for 64 KiB of company. One at warn takes along at once what
// waits before it, unless another one did so within the last millisecond: then it
// leaves when that is over. One at error or above, or without a level, is written when
// WriteLevel returns. So what explains a crash is not in memory for longer than a
// millisecond. The order of lines is kept. It is safe for concurrent use.
//
// A goroutine of its own writes. If what it writes to is slow, or blocks, a line waits for 200 ms at most, and
// for none of it while it is known to block. Lines below error are dropped when 1 MiB waits, others
// when it is 2 MiB. A line tells how many, where they would stand.
type Writer struct {
	write  func(chunk) error
	single bool // each line is a chunk, and leaves at once

	mu      sync.Mutex
	queue   []chunk // the last one may grow
	size    int     // bytes in it, and of what is being written
	due     bool    // all of the queue may leave
	writing bool    // a goroutine is at it
	began   time.Time
	added   uint64        // lines
	written uint64        // of them, or refused
	news    chan struct{} // closed when a write has returned; nil if nobody waits
	spare   []byte

	dropped uint64 // lines
	gap     uint64 // of them, those that no line has told of yet
	failing bool   // the last write failed

	timer *time.Timer
	armed bool

	pause  *time.Timer // of the lines at warn
	paused bool        // it runs
	warned bool        // the queue has one of them
}

// chunk is what leaves with one write.
type chunk struct {
	text  []byte
	level zerolog.Level // of a single line
	lines uint64
	told  uint64 // dropped lines that it tells of
}

var _ zerolog.LevelWriter = (*Writer)(nil)

// New returns a Writer in front of out. Flush it before the program ends.
func New(out io.Writer) *Writer {
	return &Writer{write: func(c chunk) error { _, err := out.Write(c.text); return err }}
}

// Singly returns a Writer that hands out each line alone, and at once.
func Singly(out zerolog.LevelWriter) *Writer {
	return &Writer{single: true, write: func(c chunk) error { _, err := out.WriteLevel(c.level, c.text); return err }}
}

// Write is WriteLevel of a line without a level, which is written at once.
func (w *Writer) Write(line []byte) (int, error) { return w.WriteLevel(zerolog.NoLevel, line) }

// WriteLevel adds a line, or drops it. There is never an error: what is refused is counted.
func (w *Writer) WriteLevel(level zerolog.Level, line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	most := maxWaiting
	if level >= zerolog.ErrorLevel {
		most = maxErrors
	}
	if w.full(len(line), most) {
		w.leave()
		if w.await(func() bool { return !w.full(len(line), most) }); w.full(len(line), most) {
			w.dropped++
			w.gap++
			return len(line), nil
		}
	}
	w.tell()
	w.add(level, line).lines++
	w.added++
	switch {
	case level >= zerolog.ErrorLevel:
		w.leave()
		mine := w.added
		w.await(func() bool { return w.written >= mine })
	case w.single:
		w.leave()
	case level == zerolog.WarnLevel && w.paused:
		w.warned = true
	case level == zerolog.WarnLevel:
		w.leave()
		w.rest()
	case w.size >= maxSize:
		w.leave()
	case !w.armed:
		w.arm()
	}
	return len(line), nil
}

// full reports whether there is no room for so many bytes. One line alone has room, whatever its length.
func (w *Writer) full(n, most int) bool { return w.size > 0 && w.size+n > most }

// add appends a line to the queue, and returns the chunk that has it.
func (w *Writer) add(level zerolog.Level, line []byte) *chunk {
	last := len(w.queue) - 1
	if last < 0 || w.single || len(w.queue[last].text)+len(line) > maxSize {
		text := w.spare
		w.spare = nil
		if text == nil && !w.single {
			text = make([]byte, 0, max(maxSize, len(line)))
		}
		w.queue = append(w.queue, chunk{text: text[:0], level: level})
		last++
	}
	c := &w.queue[last]
	c.text = append(c.text, line...)
	w.size += len(line)
	return c
}

// tell adds a line about those that were dropped.
func (w *Writer) tell() {
	if w.gap == 0 {
		return
	}
	var line bytes.Buffer
	log := zerolog.New(&line)
	log.Warn().Timestamp().Uint64("lines", w.gap).Msg(fmt.Sprintf("%d lines of the log were dropped here", w.gap))
	w.add(zerolog.WarnLevel, line.Bytes()).told += w.gap
	w.gap = 0
}

// await waits until a condition holds that a write may bring about, and gives up when its time is over, or
// when a write blocks.
func (w *Writer) await(met func() bool) {
	end := time.Now().Add(patience)
	for !met() {
		left := min(time.Until(end), time.Until(w.began.Add(patience)))
		if left <= 0 || !w.writing {
			return
		}
		if w.news == nil {
			w.news = make(chan struct{})
		}
		news, t := w.news, time.NewTimer(left)
		w.mu.Unlock()
		select {
		case <-news:
		case <-t.C:
		}
		t.Stop()
		w.mu.Lock()
	}
}

// leave starts a goroutine that writes the queue, unless one runs.
func (w *Writer) leave() {
	w.due, w.warned = true, false
	if !w.writing && len(w.queue) > 0 {
		w.writing, w.began = true, time.Now()
		go w.run()
	}
}

// run writes the queue until nothing in it is due.
func (w *Writer) run() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.due && len(w.queue) > 0 {
		c := w.queue[0]
		w.queue[0] = chunk{}
		if w.queue = w.queue[1:]; len(w.queue) == 0 {
			w.queue, w.due = nil, false
		}
		w.began = time.Now()
		w.mu.Unlock()
		err := w.write(c)
		w.mu.Lock()
		w.size -= len(c.text)
		w.written += c.lines
		if cap(c.text) <= 2*maxSize { // else it was one huge line
			w.spare = c.text
		}
		w.failed(err, c)
		if w.news != nil {
			close(w.news)
			w.news = nil
		}
		if err == nil && w.gap > 0 && len(w.queue) == 0 { // it flows again
			w.tell()
			w.due = true
		}
	}
	w.writing = false
}

// failed notes what a write has returned: lines that are refused are dropped, since a full disk must not fill
// the memory as well. As zerolog does, it tells the ErrorHandler, here of the first one in a row.
func (w *Writer) failed(err error, c chunk) {
	again := w.failing
	if w.failing = err != nil; err == nil {
		return
	}
	w.dropped += c.lines
	w.gap += c.lines + c.told
	if again {
		return
	}
	w.mu.Unlock()
	defer w.mu.Lock()
	if zerolog.ErrorHandler != nil {
		zerolog.ErrorHandler(err)
		return
	}
	_, _ = fmt.Fprintf(os.Stderr, "zerolog: could not write event: %v\n", err)
}

func (w *Writer) arm() {
	w.armed = true
	if w.timer == nil {
		w.timer = time.AfterFunc(maxAge, w.aged)
		return
	}
	w.timer.Reset(maxAge)
}

func (w *Writer) aged() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = false
	w.leave()
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
		w.leave()
		w.rest()
	}
}

// Flush writes what waits, and waits for that for 200 ms at most. Of nil it does nothing.
func (w *Writer) Flush() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leave()
	last := w.added
	w.await(func() bool { return w.written >= last })
}

// State is how a Writer is. Of nil it is the zero value.
type State struct {
	Dropped uint64        // lines
	Blocked time.Duration // for how long a write has not returned; 0 if none blocks
	Refused bool          // the last write failed
}

// State tells how it is.
func (w *Writer) State() State {
	if w == nil {
		return State{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s := State{Dropped: w.dropped, Refused: w.failing}
	if since := time.Since(w.began); w.writing && since >= patience {
		s.Blocked = since
	}
	return s
}
