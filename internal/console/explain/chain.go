package explain

import (
	"fmt"

	"github.com/troupehq/troupe/internal/words"
)

// Chain are the jobs of a chain behind a job.
type Chain struct {
	Jobs  int    `json:"jobs"`  // how many
	JID   string `json:"jid"`   // of the next one
	Class string `json:"class"` // of that
	Queue string `json:"queue"` // of that
}

// linked tells which job has pushed the job with its ack, and what follows it.
func (s *search) linked() {
	r := s.x.Record
	if r == nil || r.Err != nil {
		return
	}
	if s.x.Parent = r.Parent(); s.x.Parent != "" {
		s.because("parent", "It was pushed by the job %s as that was done.", words.Head(s.x.Parent))
	}
	switch behind, err := r.Behind(); {
	case err != nil && r.Cut():
		s.because("chain", "More jobs may be behind it in its chain: it is too long to tell.")
	case err != nil:
		s.because("broken_chain", "Its field t_next is no list of jobs, so the chain cannot be carried on: it goes to the dead set instead of a run.")
	case len(behind) > 0:
		next := behind[0]
		s.x.Chain = &Chain{len(behind), next.JID, next.Summary().Class, next.Queue}
		what := fmt.Sprintf("%s more jobs are behind it: next class %s, queue %s", words.Count(len(behind)), words.Head(s.x.Chain.Class), words.Head(next.Queue))
		them, follow := "them", "they follow when it is done"
		if len(behind) == 1 {
			what = fmt.Sprintf("1 more job is behind it: class %s, queue %s", words.Head(s.x.Chain.Class), words.Head(next.Queue))
			them, follow = "it", "it follows when this one is done"
		}
		if s.x.Place == "dead" {
			follow = "a retry carries on with " + them
		}
		s.because("chain", "%s; %s.", what, follow)
	}
}
