package flight

import (
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe/internal/job"
)

// JobCrashed is the kind of the records that Fold makes.
const JobCrashed = "job crashed"

// foldTime bounds the time from a panic to its last record.
const foldTime = time.Minute

// Fold merges the records that a panic of a job leaves into one: the failure of the job, its outcome,
// the crash of the actor and its restart. Records are in the order of time.
func Fold(records []Record) []Record {
	out := slices.Clone(records)
	gone := make([]bool, len(out))
	for i, crash := range records {
		if crash.Kind != Crashed {
			continue
		}
		failed := nearest(records[:i], crash, -1, job.Failed.Kind())
		if failed < 0 || !strings.HasPrefix(crash.Text, "job "+records[failed].Class+" "+records[failed].JID+": ") || out[failed].Kind == JobCrashed {
			continue
		}
		row := &out[failed]
		row.Kind, gone[i] = JobCrashed, true
		add := func(at int, what string) {
			if at >= 0 {
				gone[at] = true
				row.Text = strings.TrimPrefix(row.Text+"; "+what, "; ")
			}
		}
		if moved := nearest(records[failed+1:i], crash, 1, job.Retried.Kind(), job.Died.Kind(), job.Dropped.Kind()); moved >= 0 && records[failed+1+moved].JID == row.JID {
			moved += failed + 1
			what := strings.TrimPrefix(records[moved].Kind, "job ") // retried, died, dropped
			add(moved, strings.TrimSuffix(what+", "+records[moved].Text, ", "))
		}
		if restart := nearest(records[i+1:], crash, 1, Restarted, Crashed); restart >= 0 && records[i+1+restart].Kind == Restarted {
			restart += i + 1
			add(restart, strings.TrimSuffix("its actor: "+records[restart].Text, ": "))
		}
	}
	n := 0
	for i, r := range out {
		if !gone[i] {
			out[n] = r
			n++
		}
	}
	return out[:n]
}

// nearest returns the index of a record of one of these kinds about the actor of a crash, -1 if none is near in time. A step
// of 1 searches from the first record on, a step of -1 backwards from the last.
func nearest(records []Record, crash Record, step int, kinds ...string) int {
	at := 0
	if step < 0 {
		at = len(records) - 1
	}
	for ; at >= 0 && at < len(records); at += step {
		r := records[at]
		if r.At.Sub(crash.At).Abs() > foldTime {
			if step < 0 || r.At.After(crash.At) {
				return -1
			}
			continue
		}
		if r.Process == crash.Process && r.Actor == crash.Actor && slices.Contains(kinds, r.Kind) {
			return at
		}
	}
	return -1
}
