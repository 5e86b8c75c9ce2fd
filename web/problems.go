package web

import (
	"cmp"
	"slices"
	"strings"

	"github.com/troupehq/troupe/internal/console/doctor"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/words"
)

// problem is one with the address where more of it stands.
type problem struct {
	fleet.Problem
	Href string `json:"-"`
	Goal string `json:"-"` // what Href leads to: the process, the queue, retries
}

// problems are what a snapshot shows, the worst first.
func (r *request) problems(s *snapshot) []problem {
	all := fleet.Wrong(s.Processes, s.Queues, s.Overdue)
	all = append(all, fleet.Audited(s.Findings)...)
	if s.Fault != nil {
		all = slices.Insert(all, 0, fleet.Problem{Finding: doctor.Finding{
			Severity: doctor.Danger, Code: "redis", Do: "See whether Redis runs and can be reached from here. What stands below is older.",
			Text: "Redis has not answered since " + s.Since.UTC().Format("15:04:05") + " UTC: " + words.Short(s.Fault.Error(), 200) + ".",
		}})
	}
	return r.linked(fleet.Worst(all))
}

// linked are problems with their addresses.
func (r *request) linked(all []fleet.Problem) []problem {
	linked := make([]problem, len(all))
	for i, p := range all {
		linked[i] = problem{Problem: p}
		switch {
		case p.Process != "":
			linked[i].Href, linked[i].Goal = cmp.Or(r.link("/tree/{id}", "tree", p.Process), r.link("/processes")), "the process"
		case p.Code == "storm" && !strings.HasPrefix(r.path, "/tree"): // of several processes
			linked[i].Href, linked[i].Goal = r.link("/tree"), "the tree"
		case addressable(p.Periodic):
			linked[i].Href, linked[i].Goal = r.link("/periodic/{name}", "periodic", p.Periodic), "the periodic job"
		case p.Class != "":
			linked[i].Href, linked[i].Goal = r.link("/classes/{class}", "classes", p.Class), "the class"
		case p.Queue != "":
			linked[i].Href, linked[i].Goal = r.url("queues", p.Queue), "the queue"
		case p.Set != "":
			linked[i].Href, linked[i].Goal = r.url(setKinds[p.Set].Path), map[string]string{"retry": "retries", "scheduled": "scheduled jobs", "dead": "dead jobs"}[p.Set]
		}
	}
	return linked
}

// link is the address of a page that there is; "" if there is none, or the user may not see it.
// Without segments the path is the address.
func (r *request) link(path string, segments ...string) string {
	if !r.can("GET", path) {
		return ""
	}
	if segments == nil {
		return r.base + path
	}
	return r.url(segments...)
}
