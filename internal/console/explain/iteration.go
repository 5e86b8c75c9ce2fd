package explain

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/console/mask"
	"github.com/troupehq/troupe/internal/words"
)

// Progress is how far an iterable job has come, for people and as JSON.
type Progress struct {
	Executions int             `json:"executions"`          // runs that have begun
	Cursor     json.RawMessage `json:"cursor,omitempty"`    // where the next one goes on, masked
	Runtime    float64         `json:"runtime_s"`           // of the runs that have ended
	Cancelled  *time.Time      `json:"cancelled,omitempty"` // when somebody asked it to end
}

// ProgressOf is that of a job that has begun; nil if it has not, or is not iterable.
func ProgressOf(it *troupe.Iteration, m *mask.Masker) *Progress {
	if it.Executions == 0 && it.Cursor == nil && it.Cancelled.IsZero() {
		return nil
	}
	p := &Progress{Executions: it.Executions, Runtime: it.Runtime.Seconds()}
	if text := string(it.Cursor); text != "" && text != "null" && json.Valid(it.Cursor) {
		p.Cursor = m.Args(it.Cursor)
	}
	if !it.Cancelled.IsZero() {
		at := it.Cancelled.UTC()
		p.Cancelled = &at
	}
	return p
}

// String is like "3 runs, 1m20s, cursor 199"; "" for none.
func (p *Progress) String() string {
	if p == nil {
		return ""
	}
	text := fmt.Sprintf("%s, %s", words.Plural(p.Executions, "run"), time.Duration(p.Runtime*float64(time.Second)).Round(time.Second))
	if p.Cursor != nil {
		text += ", cursor " + words.Short(string(p.Cursor), 100)
	}
	if p.Cancelled != nil {
		text += ", cancelled"
	}
	return text
}

// iterates tells how far the job has come that was found.
func (s *search) iterates() error {
	if s.x.Record == nil || s.x.JID == "" {
		return nil
	}
	its, err := s.i.Iterations(s.ctx, s.x.JID)
	if err != nil {
		return err
	}
	if s.x.Progress = ProgressOf(&its[0], s.fleet.Mask); s.x.Progress != nil {
		text := fmt.Sprintf("It is an iterable job that has begun: %s.", s.x.Progress)
		s.x.Why = append(s.x.Why, Reason{"iterable", text}) // what is masked in it is the cursor
	}
	return nil
}
