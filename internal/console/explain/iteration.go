package explain

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/mask"
	"github.com/troupehq/troupe/internal/words"
)

// Progress is how far a job has come, for people and as JSON.
type Progress struct {
	*Runs // nil if the job is not iterable, or has not begun

	Done  int64      `json:"done,omitempty"`
	Total int64      `json:"total,omitempty"` // 0 if it is not known
	Text  string     `json:"text,omitempty"`  // masked
	Rate  float64    `json:"rate,omitempty"`  // done a second in the last two minutes
	Left  *float64   `json:"left_s,omitempty"`
	Told  *time.Time `json:"told,omitempty"` // when that has changed last; nil of a job that does not run, or has told nothing
}

// Runs are those of an iterable job.
type Runs struct {
	Executions int             `json:"executions"`          // that have begun
	Cursor     json.RawMessage `json:"cursor,omitempty"`    // where the next one goes on, masked
	Runtime    float64         `json:"runtime_s"`           // of those that have ended
	Cancelled  *time.Time      `json:"cancelled,omitempty"` // when somebody asked the job to end
}

// ProgressOf is that of a job with this state, if it is iterable, that has told this, if it runs; nil if there is neither.
func ProgressOf(it *troupe.Iteration, told *inspect.Progress, m *mask.Masker) *Progress {
	p := &Progress{Runs: runsOf(it, m), Done: it.Done, Total: it.Total}
	if told == nil {
		if p.Runs == nil {
			return nil
		}
		return p
	}
	p.Done, p.Total, p.Text, p.Rate, p.Told = told.Done, told.Total, m.Text(told.Text), told.Rate, &told.At
	if left, ok := told.Left(); ok {
		s := left.Seconds()
		p.Left = &s
	}
	return p
}

func runsOf(it *troupe.Iteration, m *mask.Masker) *Runs {
	if it.Executions == 0 && it.Cursor == nil && it.Cancelled.IsZero() {
		return nil
	}
	r := &Runs{Executions: it.Executions, Runtime: it.Runtime.Seconds()}
	if text := string(it.Cursor); text != "" && text != "null" && json.Valid(it.Cursor) {
		r.Cursor = m.Args(it.Cursor)
	}
	if !it.Cancelled.IsZero() {
		at := it.Cancelled.UTC()
		r.Cancelled = &at
	}
	return r
}

// Percent is how much is done, at most 100; -1 if that is not known.
func (p *Progress) Percent() int {
	if p == nil || p.Total <= 0 {
		return -1
	}
	return int(min(100, 100*float64(p.Done)/float64(p.Total)))
}

// Of is like "40 of 100 (40 %), 2.0/s, 30s left, pages of the book"; "" if nothing is known.
func (p *Progress) Of() string {
	var parts []string
	switch {
	case p == nil:
	case p.Total > 0:
		parts = append(parts, fmt.Sprintf("%s of %s (%d %%)", words.Count(p.Done), words.Count(p.Total), p.Percent()))
	case p.Done > 0 || p.Told != nil && p.Text == "":
		parts = append(parts, words.Count(p.Done)+" done")
	}
	if p != nil && p.Rate > 0 {
		parts = append(parts, words.Rate(p.Rate)+"/s")
	}
	if p != nil && p.Left != nil && p.Done < p.Total {
		parts = append(parts, words.Few(time.Duration(*p.Left*float64(time.Second)))+" left")
	}
	if p != nil && p.Text != "" {
		parts = append(parts, p.Text)
	}
	return strings.Join(parts, ", ")
}

// String is Of and, of an iterable job, like "3 runs, 1m20s, cursor 199"; "" for none.
func (p *Progress) String() string {
	text := p.Of()
	if p == nil || p.Runs == nil {
		return text
	}
	if text != "" {
		text += "; "
	}
	text += fmt.Sprintf("%s, %s", words.Plural(p.Executions, "run"), time.Duration(p.Runtime*float64(time.Second)).Round(time.Second))
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
	var told *inspect.Progress
	if s.x.Place == "running" {
		for _, w := range s.works {
			if w.Job.JID == s.x.JID && w.Progress != nil {
				told = w.Progress
			}
		}
	}
	p := ProgressOf(&its[0], told, s.fleet.Mask)
	if s.x.Progress = p; p == nil {
		return nil
	}
	if p.Runs != nil {
		text := fmt.Sprintf("It is an iterable job that has begun: %s.", p)
		s.x.Why = append(s.x.Why, Reason{"iterable", text}) // what is masked in it is the cursor
	}
	if told != nil {
		text := fmt.Sprintf("It tells its progress: %s. That has changed %s ago.", p.Of(), words.Few(time.Since(told.At)))
		s.x.Why = append(s.x.Why, Reason{"progress", text})
	}
	return nil
}
