package explain

import (
	"cmp"
	"errors"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/words"
)

// Batch is the batch that a job belongs to, or whose callback it is.
type Batch struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	State   string `json:"state"`
	Total   int64  `json:"total"`   // jobs
	Pending int64  `json:"pending"` // of them are not done
	Index   int64  `json:"index"`   // of the job; -1 of a callback that does not belong to it
	Event   string `json:"event"`   // whose callback the job is; "" if it is none
}

func (s *search) batchOf(b *inspect.Batch, index int64, event string) *Batch {
	return &Batch{b.ID, s.fleet.Mask.Text(b.Name), b.State(), b.Total, b.Pending, index, event}
}

// name is the batch for people.
func (b *Batch) name() string {
	if b.Name == "" {
		return words.Head(b.ID)
	}
	return words.Head(b.ID) + " (" + words.Head(b.Name) + ")"
}

// batched tells of the batch of the job, and of the one whose callback it is; of a job that is nowhere, which batch pushes it.
func (s *search) batched() error {
	r := s.x.Record
	if r == nil {
		if s.x.Place != "" {
			return nil
		}
		return s.unpushed()
	}
	if id, event := r.CallbackOf(); id != "" {
		b, err := s.i.Batch(s.ctx, id)
		if err != nil && !errors.Is(err, inspect.ErrNotFound) {
			return err
		}
		if b == nil {
			b = &inspect.Batch{ID: id}
		}
		s.x.CallbackOf = s.batchOf(b, -1, event)
		s.because("callback", "It is the callback %s of the batch %s.", words.Head(event), s.x.CallbackOf.name())
	}
	id, index := r.Batch()
	if id == "" {
		return nil
	}
	b, err := s.i.Batch(s.ctx, id)
	if errors.Is(err, inspect.ErrNotFound) {
		s.because("batch", "It belongs to the batch %s, which is not there any more.", words.Head(id))
		return nil
	}
	if err != nil {
		return err
	}
	s.x.Batch = s.batchOf(b, int64(index), "")
	switch {
	case b.State() == inspect.BatchCancelled:
		s.because("batch", "It belongs to the batch %s, which was cancelled.", s.x.Batch.name())
		if s.x.Place != "dead" && s.x.Place != "running" {
			s.x.Next = "It is dropped when its turn comes: its batch was cancelled."
		}
	default:
		s.because("batch", "It is job %s of the batch %s, which is %s: %s of %s not done.", words.Count(index), s.x.Batch.name(), b.State(), words.Count(b.Pending), words.Plural(b.Total, "job"))
	}
	return nil
}

// unpushed looks for a batch that is to push the job as its callback.
func (s *search) unpushed() error {
	b, c, err := s.i.FindCallback(s.ctx, s.x.JID)
	if errors.Is(err, inspect.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	s.x.Place, s.x.CallbackOf = "batch", s.batchOf(b, -1, c.Event)
	s.because("callback", "It is the callback %s of the batch %s, class %s, and was not pushed yet.", c.Event, s.x.CallbackOf.name(), words.Head(cmp.Or(c.Class, "?")))
	left := words.Plural(b.Total, "job")
	switch {
	case c.Refused:
		s.because("refused", "The queue %s refuses it.", words.Head(c.Queue))
		s.x.Next = "When the queue is mended troupe batches close " + words.Word(b.ID) + " pushes it."
		return nil
	case c.Event == "death":
		s.x.Next = "It is pushed when a job of the batch dies."
		return nil
	case !b.Closed:
		s.because("open", "The batch is open.")
	}
	if c.Event == "complete" {
		s.because("waits", "Not run yet: %s of %s.", words.Count(b.Unrun), left)
		s.x.Next = "It is pushed when the batch is closed and each of its jobs has ended a run."
	} else {
		s.because("waits", "Not done: %s of %s.", words.Count(b.Pending), left)
		s.x.Next = "It is pushed when the batch is closed and each of its jobs is done. troupe batches show " + words.Word(b.ID) + " tells where they are."
	}
	return nil
}
