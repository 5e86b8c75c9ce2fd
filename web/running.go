package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/words"
)

const (
	worksFor   = time.Second     // that pages share what runs
	cancelTime = 3 * time.Second // that processes have to answer
)

// running are the jobs that run.
type running struct {
	list  []*inspect.Work    // the longest first
	stuck map[string]unended // the unresponsive ones, by jid
}

// running returns the jobs that run.
func (r *request) running() (running, error) {
	s, err := r.refreshed()
	if err != nil {
		return running{}, err
	}
	return together(r.Context(), &r.looks, "running", worksFor, func(ctx context.Context) (all running, err error) {
		if all.list, err = r.fleet.Inspector.Works(ctx); err != nil {
			return all, err
		}
		all.stuck = map[string]unended{}
		for _, p := range s.Processes {
			if p.Pulse == nil || p.Pulse.Unresponsive == 0 || p.Phase == fleet.Gone {
				continue
			}
			tree, err := r.fleet.Tree(ctx, p.Identity)
			if err != nil {
				return all, err
			}
			for _, n := range tree {
				for _, u := range n.Unresponsive {
					all.stuck[u.JID] = unended{u, n.Capsule}
				}
			}
		}
		return all, nil
	})
}

// runningPage is the data of the page of running jobs.
type runningPage struct {
	Busy  int          `json:"busy"` // jobs that run
	Slots int          `json:"slots"`
	Jobs  []runningJob `json:"jobs"` // the longest first
	Pager pager        `json:"-"`
}

// runningJob is a row of the page.
type runningJob struct {
	job
	Process      string          `json:"process"`
	Processor    string          `json:"processor"`
	Cursor       json.RawMessage `json:"cursor,omitempty"`       // that of Progress
	Unresponsive string          `json:"unresponsive,omitempty"` // since when and why
	P95          *float64        `json:"p95_s"`                  // of the runs of its class in the last hour; null if none is known
	Long         bool            `json:"long,omitempty"`         // it runs for longer than that
	Href         string          `json:"-"`                      // of its process
}

func (r *request) runningJobs(s *snapshot) (*page, error) {
	seen, err := r.running()
	if err != nil {
		return nil, err
	}
	all := seen.list
	p := runningPage{Busy: len(all), Slots: totalsOf(s).Slots, Jobs: []runningJob{}}
	from := min(int(r.number("from")), len(all))
	shown := all[from:min(from+rows, len(all))]
	ran, err := r.ranBefore(shown)
	if err != nil {
		return nil, err
	}
	for _, w := range shown {
		j := runningJob{job: r.job(&w.Job), Process: w.Process, Processor: w.Thread, Href: r.link("/tree/{id}", "tree", w.Process)}
		j.At, j.Queue, j.told = w.RunAt, w.Queue, w.Progress
		if u, ok := seen.stuck[w.Job.JID]; ok {
			j.Unresponsive = fmt.Sprintf("for %s: %s", words.Span(time.Since(u.Since)), u.Cause)
		}
		if sum := sumOf(ran[j.Class]); !w.RunAt.IsZero() {
			j.P95 = secondsOf(&sum, 0.95)
			j.Long = j.P95 != nil && s.At.Sub(w.RunAt).Seconds() > *j.P95
		}
		p.Jobs = append(p.Jobs, j)
	}
	if err := r.iterates(len(p.Jobs), func(i int) *job { return &p.Jobs[i].job }); err != nil {
		return nil, err
	}
	for i := range p.Jobs {
		if progress := p.Jobs[i].Progress; progress != nil && progress.Runs != nil {
			p.Jobs[i].Cursor = progress.Cursor
		}
	}
	p.Pager = r.pager(int64(from), len(shown), int64(len(all)))
	return &page{Template: "running", Title: "Running", Data: p, Topic: "processes", Next: p.Pager.Next}, nil
}

// ranBefore are the runs of the last hour of the classes of jobs.
func (r *request) ranBefore(works []*inspect.Work) (map[string][]inspect.Runs, error) {
	if len(works) == 0 {
		return nil, nil
	}
	var classes []string
	for _, w := range works {
		classes = append(classes, w.Job.Summary().Class)
	}
	slices.Sort(classes)
	return r.runs(windows[0], slices.Compact(classes)...)
}

func (r *request) cancelJob() (*page, error) {
	jid, back := r.name("jid"), r.url("running")
	if r.form("back") == "job" {
		back = r.url("jobs", jid)
	}
	call, stop := context.WithTimeout(r.Context(), cancelTime)
	defer stop()
	process, err := r.fleet.Inspector.CancelRunning(call, jid)
	r.looks.forget("running") // it is not as it was
	var refused *inspect.RefusedError
	switch {
	case errors.As(err, &refused):
		return r.undone(back, nil, "The job %s goes on: %s is a Ruby process, and a Ruby process can only cancel iterable jobs.", jid, refused.Process)
	case errors.Is(err, inspect.ErrNotFound):
		return r.undone(back, nil, "The job %s runs nowhere any more: somebody was faster, or it has ended. Nothing was cancelled.", jid)
	case errors.Is(err, inspect.ErrNoReply):
		return r.undone(back, nil, "Whether the job %s is cancelled is not known: %v.", jid, err)
	case err != nil:
		return nil, err
	}
	counts := map[string]string{"process": process}
	s := snapshot{}
	if s.Processes, err = r.fleet.Processes(r.Context()); err != nil { // it may have begun just now
		return nil, err
	}
	if p := s.process(process); p != nil && p.Pulse == nil {
		return r.done(back, counts, "The job %s is asked to end: it is an iterable one, and the Ruby process %s ends it at its next look, within some seconds.", jid, process)
	}
	return r.done(back, counts, "The job %s is cancelled in %s: its context has ended. What becomes of it is its handler's affair.", jid, process)
}
