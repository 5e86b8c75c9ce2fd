package explain

import (
	"time"

	"github.com/troupehq/troupe/internal/periodic"
	"github.com/troupehq/troupe/internal/words"
)

// Origin is the periodic job that has pushed a job, as the job says.
type Origin struct {
	Name string    `json:"name,omitempty"`
	Tick time.Time `json:"tick,omitzero"` // zero if it was pushed beside the ticks
}

// clocked tells which periodic job has pushed the job, and for which tick.
func (s *search) clocked() {
	if s.x.Record == nil || s.x.Record.Payload == nil {
		return
	}
	name, tick := periodic.Origin(s.x.Record.Payload)
	by := "a periodic job"
	switch {
	case name != "":
		by = "the periodic job " + words.Head(name)
	case tick.IsZero():
		return
	}
	s.x.Periodic = &Origin{Name: name, Tick: tick}
	if tick.IsZero() {
		s.because("periodic", "It was pushed from %s, beside its ticks.", by)
		return
	}
	s.because("periodic", "It was pushed by %s, for its tick of %s.", by, tick.UTC().Format("2006-01-02 15:04:05 UTC"))
	s.x.Timeline = append(s.x.Timeline, Step{tick.UTC(), "tick of " + by, "payload"})
}
