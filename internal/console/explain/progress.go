package explain

import (
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/words"
)

// progress looks among the jobs that run, and those that processes of troupe have taken.
func (s *search) progress() (bool, error) {
	note(&s.x.Searched, "running")
	note(&s.x.Searched, "in progress")
	works, err := s.i.Works(s.ctx)
	if err != nil {
		return false, err
	}
	s.works = works
	for _, w := range s.works {
		if w.Job.JID == s.x.JID {
			s.found(&w.Job, w.RunAt)
			return true, s.running(w)
		}
	}
	for claim, err := range s.i.Claims(s.ctx) {
		if err != nil {
			return false, err
		}
		for job, err := range claim.Each(s.ctx) {
			if err != nil {
				return false, err
			}
			if job.JID == s.x.JID {
				s.found(job, since(job))
				s.taken(claim)
				return true, nil
			}
		}
	}
	return false, nil
}

func (s *search) running(w *inspect.Work) error {
	s.x.Place = "running"
	s.because("running", "It runs in %s since %s.", w.Process, words.Few(time.Since(w.RunAt)))
	s.x.Next = "When it ends, its outcome decides."
	for claim, err := range s.i.Claims(s.ctx) {
		if err != nil {
			return err
		}
		if !claim.Suspect {
			continue
		}
		for job, err := range claim.Each(s.ctx) {
			if err != nil {
				return err
			}
			if job.JID == s.x.JID {
				s.because("isolated", "It is a suspect: its process has died under it before. It runs alone in this process, which begins no other job meanwhile.")
				s.x.Next = "If it ends it is cleared. If the process dies again, the job goes to the dead set."
			}
		}
	}
	if c := s.recorded(job.Cancelled.Kind()); c != nil && c.At.After(w.RunAt.Add(-time.Second)) {
		s.because("cancelled", "Its context was cancelled %s ago. %s", words.Few(time.Since(c.At)), c.Text)
	}
	tree, err := s.fleet.Tree(s.ctx, w.Process)
	if err != nil {
		return err
	}
	for _, n := range tree {
		for _, u := range n.Unresponsive {
			if u.JID == s.x.JID {
				slot := "It keeps its slot."
				if u.Replaced {
					slot = "Its slot is another job's."
				}
				s.because("unresponsive", "Its context was cancelled %s ago (%s), and it does not end. %s Its goroutine: %s", words.Few(time.Since(u.Since)), u.Cause, slot, words.FirstLine(u.Stack, words.MaxHead))
				s.x.Next = "It goes on until its handler returns, or the process ends. troupe dump " + w.Process + " shows all stacks."
			}
		}
	}
	return nil
}

// taken explains a job that a process has fetched and that does not run.
func (s *search) taken(c *inspect.Claim) {
	s.x.Place = "in progress"
	f := c.Fetcher
	if f.Alive {
		s.because("fetched", "%s has taken it from the queue %s, and it waits for a processor, or has ended and waits to be settled.", f.Process, c.Queue)
		s.x.Next = "It begins when a processor is free, or goes back to its queue."
		return
	}
	s.because("owner_dead", "%s has died with it: its lease is over.", f.Process)
	s.x.Next = "A rescuer puts it back into the queue " + c.Queue + " within a minute."
	if len(fleet.Ours(s.processes)) == 0 {
		s.x.Next = "No process of troupe lives that puts it back: start one, or run troupe rescue."
	}
}
