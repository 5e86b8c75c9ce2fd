// Package progress is a file that the driver and its workers map into memory: the
// workers count what they run and write down how long it waited, and the driver
// reads along. A look costs no message, no system call and nothing in the store,
// so it costs every contender the same.
package progress

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Layout, in words of 8 bytes. sidekiq.rb knows it, too.
const (
	wordReady   = 0 // processes that have started
	wordDone    = 1 // jobs whose handler has ended
	wordForeign = 2 // those of a process that cannot add atomically; it has this word to itself
	wordTarget  = 3 // the number of jobs at which Allocs is complete
	wordMallocs = 4 // heap allocations from a tenth of the target to the target
	wordRefused = 5 // jobs that found no room under a limit
	firstSample = 8
)

// Progress is one mapped file.
type Progress struct {
	Path  string
	words []int64
	mem   []byte
	early atomic.Uint64 // Mallocs at a tenth of the target
}

// Create makes the file with room for samples samples.
func Create(path string, samples int) (*Progress, error) {
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return nil, err
	}
	if err := os.Truncate(path, int64(firstSample+samples)*8); err != nil {
		return nil, err
	}
	return Open(path)
}

// Open maps a file that Create made.
func Open(path string) (*Progress, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() < firstSample*8 {
		return nil, fmt.Errorf("progress %s has %d bytes, expected at least %d", path, info.Size(), firstSample*8)
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	words := unsafe.Slice((*int64)(unsafe.Pointer(&mem[0])), len(mem)/8)
	return &Progress{Path: path, words: words, mem: mem}, nil
}

// Close unmaps the file and removes it.
func (b *Progress) Close() {
	_ = unix.Munmap(b.mem)
	_ = os.Remove(b.Path)
}

// Ready tells that one more process has started.
func (b *Progress) Ready() { atomic.AddInt64(&b.words[wordReady], 1) }

// ReadyCount is the number of processes that have started.
func (b *Progress) ReadyCount() int64 { return atomic.LoadInt64(&b.words[wordReady]) }

// SetTarget asks for the allocations of a run of n jobs.
func (b *Progress) SetTarget(n int64) { atomic.StoreInt64(&b.words[wordTarget], n) }

// Add counts n jobs.
func (b *Progress) Add(n int64) {
	done := atomic.AddInt64(&b.words[wordDone], n)
	if target := atomic.LoadInt64(&b.words[wordTarget]); target > 0 {
		b.allocations(done, target)
	}
}

// Done is the number of jobs counted so far.
func (b *Progress) Done() int64 {
	return atomic.LoadInt64(&b.words[wordDone]) + atomic.LoadInt64(&b.words[wordForeign])
}

// Refuse counts a job that found no room under a limit, each time.
func (b *Progress) Refuse() { atomic.AddInt64(&b.words[wordRefused], 1) }

// Refused is how often that was.
func (b *Progress) Refused() int64 { return atomic.LoadInt64(&b.words[wordRefused]) }

// Sample writes down one measurement; i out of range is ignored.
func (b *Progress) Sample(i, value int64) {
	if i >= 0 && i < int64(len(b.words)-firstSample) {
		atomic.StoreInt64(&b.words[firstSample+i], max(value, 1))
	}
}

// Samples returns the first n measurements; 0 where there is none.
func (b *Progress) Samples(n int) []int64 {
	out := make([]int64, min(n, len(b.words)-firstSample))
	for i := range out {
		out[i] = atomic.LoadInt64(&b.words[firstSample+i])
	}
	return out
}

// Now reads a clock that all processes of the machine share, in nanoseconds.
func Now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return time.Now().UnixNano()
	}
	return t.Nano()
}
