package runs

import (
	"slices"
	"sync"
	"time"
)

// SampleEvery is how many runs one wait that is measured stands for.
const SampleEvery = 16

// Queue is what is known of the jobs that came from one queue.
type Queue struct {
	Name    string
	Fetched uint64
	Waits   Histogram // from the push to the start of the run, estimated from one in SampleEvery
}

// Traffic counts what a capsule fetches and settles, by call, and how long its jobs have waited.
// The zero Traffic has nothing. All methods are safe for concurrent use.
type Traffic struct {
	mu            sync.Mutex
	queues        []*Queue // in the order in which they were first seen
	fetch, settle Histogram
}

// queueLocked is that of this name.
func (t *Traffic) queueLocked(name string) *Queue {
	for _, q := range t.queues {
		if q.Name == name {
			return q
		}
	}
	q := &Queue{Name: name}
	t.queues = append(t.queues, q)
	return q
}

// Expect notes queues from which jobs may come.
func (t *Traffic) Expect(names ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range names {
		t.queueLocked(name)
	}
}

// Waited counts a wait that was measured.
func (t *Traffic) Waited(queue string, d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queueLocked(queue).Waits.Observe(max(0, d), SampleEvery)
}

// Fetched counts a call that asked for jobs and brought n, each from the queue that of tells.
func (t *Traffic) Fetched(took time.Duration, n int, of func(i int) string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fetch.Observe(took, 1)
	var q *Queue
	for i := range n {
		if name := of(i); q == nil || q.Name != name {
			q = t.queueLocked(name)
		}
		q.Fetched++
	}
}

// Settled counts a call that only settled.
func (t *Traffic) Settled(took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settle.Observe(took, 1)
}

// Read returns what was counted so far.
func (t *Traffic) Read() (queues []Queue, fetch, settle Histogram) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, q := range t.queues {
		queues = append(queues, *q)
	}
	return slices.Clip(queues), t.fetch, t.settle
}
