package retry

import (
	"bytes"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/words"
)

// This file decides about jobs that have not failed: their handlers put them off, or into another
// queue.

// What becomes of such a job.
const (
	Park = job.Parked // Decision.Payload into the schedule set
	Move = job.Moved  // Decision.Payload into Decision.Queue
)

// Why, by the handler.
const (
	becauseParked = "parked"
	becauseMoved  = "moved"
)

// unfailed is the decision that the handler has asked for; false if the job has failed.
func (f *failure) unfailed() (Decision, bool) {
	switch {
	case f.asked.Park:
		return f.park(f.asked.Delay), true
	case f.asked.Move:
		return f.move(f.asked.Queue), true
	}
	return Decision{}, false
}

// park puts the job off and leaves its bytes as they are, with two exceptions. What leaves the
// schedule set goes to the queue that the job names, so that field is set if the job was fetched from
// another queue (it was moved by hand, or lacks the field). Fields that Sidekiq's poller would refuse
// are mended; see pushable.
func (f *failure) park(d time.Duration) Decision {
	wait := max(d, 0).Seconds()
	dec := Decision{Outcome: Park, Reason: becauseParked, RetryCount: notCounted, Score: scores.Of(f.now) + wait, Wait: wait}
	if f.m.Queue() != f.FetchedFrom {
		f.m.SetString("queue", f.FetchedFrom)
	}
	if f.Rules == nil {
		pushable(f.m)
	}
	if text := f.m.Bytes(); !bytes.Equal(text, f.Raw) && f.m.Rewritable() == nil {
		dec.Payload = text
	}
	return dec
}

// Moves tells why no job from one queue can be moved into another, nil if it can; see
// troupe.MoveTo.
func (pol Policy) Moves(from, to string) error {
	reason := ""
	switch {
	case pol.Rules != nil && pol.Rules.Stays:
		reason = "jobs of this system stay in their queue"
	case to == from:
		reason = "the job is from that queue"
	case to == "" || !utf8.ValidString(to) || strings.HasSuffix(to, keys.SuspectsSuffix):
		reason = "expected a name that is not empty, is UTF-8 and does not end with " + keys.SuspectsSuffix
	default:
		return nil
	}
	return fmt.Errorf("move to the queue %q: %s", words.Text(to), reason)
}

// move puts the job into another queue as a push does, with its other fields as they are. Bytes that
// cannot be written back go as they came.
func (f *failure) move(queue string) Decision {
	f.m.SetString("queue", queue)
	f.m.SetTime("enqueued_at", f.now, f.Timestamps)
	d := Decision{Outcome: Move, Reason: becauseMoved, RetryCount: notCounted, Queue: queue}
	if f.m.Rewritable() == nil {
		d.Payload = f.m.Bytes()
	}
	return d
}
