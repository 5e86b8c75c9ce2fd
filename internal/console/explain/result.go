package explain

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/words"
)

// Result is how the job has ended, as it is kept for who waits for it.
type Result struct {
	Outcome string          `json:"outcome"` // done, dead, dropped, expired, deleted, cancelled
	At      time.Time       `json:"at"`
	Value   json.RawMessage `json:"value,omitempty"` // what its handler has returned, masked

	ErrorClass   string `json:"error_class,omitempty"`
	ErrorMessage string `json:"error_message,omitempty"` // masked
}

// result tells how the job has ended, if that is kept.
func (s *search) result() error {
	if s.x.JID == "" {
		return nil
	}
	end, err := s.i.Result(s.ctx, s.x.JID)
	switch {
	case errors.Is(err, inspect.ErrNotFound):
		return nil
	case redis.HasErrorPrefix(err, "WRONGTYPE"), redis.HasErrorPrefix(err, "NOPERM"):
		s.because("result_unread", "Its result could not be read: %v.", err)
		return nil
	case err != nil:
		return err
	}
	m := s.fleet.Mask
	s.x.Result = &Result{
		Outcome: end.Outcome, At: end.At, Value: m.Result(end.Value),
		ErrorClass: end.ErrorClass, ErrorMessage: m.Text(end.ErrorMessage),
	}
	s.x.Timeline = append(s.x.Timeline, Step{end.At, "ended: " + end.Outcome, "result"})
	switch ago := words.Few(time.Since(end.At)); {
	case s.x.Place == "" && end.Outcome == job.Done.String():
		s.because("ended", "It is done since %s, and its result is kept.", ago)
	case s.x.Place == "":
		s.because("ended", "It has ended %s ago: it is %s.", ago, end.Outcome)
	case s.x.Place != "dead":
		s.because("ended_before", "An end of it from before is kept: %s, %s ago. Who waits for it gets that until it ends anew.", end.Outcome, ago)
	}
	return nil
}
