package job

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/words"
)

// Progress is what Redis has of the progress of a running job.
type Progress struct {
	Done  int64   `json:"done"`
	Total int64   `json:"total,omitempty"` // 0: not known
	Text  string  `json:"text,omitempty"`
	At    float64 `json:"at"`             // when it was told, to about a second; seconds since the epoch
	Rate  float64 `json:"rate,omitempty"` // done a second in the last two minutes; 0: not known, or none
}

// JSON is the text of it.
func (p Progress) JSON() []byte {
	text, err := EncodeJSON(p)
	if err != nil {
		panic(err) // it has numbers that are finite, and a text of UTF-8
	}
	return text
}

// ParseProgress reads such a text.
func ParseProgress(text string) (Progress, error) {
	var p Progress
	if err := json.Unmarshal([]byte(text), &p); err != nil || p.At == 0 {
		return p, fmt.Errorf("the stored progress of the job is %q, expected a JSON object with the field at", words.Short(text, 60))
	}
	return p, nil
}

const (
	// rateOver is the time whose rate is told, as far as the run is that old.
	rateOver = 2 * time.Minute
	// rateEvery is the time between two numbers that are remembered for it.
	rateEvery = 5 * time.Second
)

// told is what a run has told of its progress. Guarded by the mutex of its Report.
type told struct {
	Progress
	any     bool // something was told
	changed bool // since it was looked at
	by      bool // the handler has told it, not the iteration
	past    []mark
}

// mark is a number that was done at a time.
type mark struct {
	at   time.Time
	done int64
}

// SetProgress notes what the handler tells, or what an iteration counts unless the handler tells. It returns by how much what is done
// has grown in this run, and whether the run has told something for the first time. After the end nothing is noted. An iteration
// begins with what earlier runs have done.
func (r *Report) SetProgress(done, total int64, text string, counted bool) (more int64, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &r.progress
	if r.ended || counted && t.by {
		return 0, false
	}
	first = !t.any
	if !first || !counted {
		more = max(0, done-t.Done)
	}
	if first || done < t.Done { // it begins, or begins anew
		t.past = []mark{{time.Now(), done}}
	}
	t.any, t.changed, t.by = true, true, !counted
	t.Done, t.Total = done, total
	if !counted {
		t.Text = text
	}
	return more, first
}

// Progress is what was told last, with the rate until now, and whether that has changed since the last look; ok is false if
// nothing was told. A nil Report has told nothing.
func (r *Report) Progress(now time.Time) (p Progress, changed, ok bool) {
	if r == nil {
		return p, false, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &r.progress
	if !t.any {
		return p, false, false
	}
	if changed = t.changed; changed {
		t.changed, t.At = false, float64(now.UnixMilli())/1e3
		t.Text = strings.ToValidUTF8(words.Short(t.Text, troupe.MaxProgressText), "\ufffd")
	}
	for len(t.past) > 1 && now.Sub(t.past[1].at) >= rateOver {
		t.past = t.past[1:]
	}
	if now.Sub(t.past[len(t.past)-1].at) >= rateEvery {
		t.past = append(t.past, mark{now, t.Done})
	}
	t.Rate = 0
	if d := now.Sub(t.past[0].at).Seconds(); d > 0 {
		t.Rate = float64(t.Done-t.past[0].done) / d
	}
	return t.Progress, changed, true
}
