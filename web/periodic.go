package web

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/words"
)

// periodicEvery is how old what stands on a page of periodic jobs may be.
const periodicEvery = 4 * time.Second

// periodicPage is the data of the list of periodic jobs.
type periodicPage struct {
	Jobs  []periodicRow `json:"jobs"` // those that are stuck first
	Stuck int           `json:"stuck"`
	Pager pager         `json:"-"`
}

// periodicRow is a periodic job with the address of its page.
type periodicRow struct {
	fleet.Periodic
	Space string `json:"-"` // its namespace, where people have to know it
	r     *request
}

// Address is that of its page, or of an action; "" if its name cannot be in one.
func (p periodicRow) Address(action ...string) string {
	if !addressable(p.Name) {
		return ""
	}
	return p.r.url(append([]string{"periodic", p.Name}, action...)...) + "?namespace=" + url.QueryEscape(cmp.Or(p.Namespace, "-"))
}

func (r *request) periodicJobs() (*page, error) {
	all, err := r.fleet.PeriodicJobs(r.Context())
	if err != nil {
		return nil, err
	}
	troubledFirst(all, func(p fleet.Periodic) bool { return p.Stuck })
	from := min(r.number("from"), int64(len(all)))
	shown := all[from:min(from+rows, int64(len(all)))]
	p := periodicPage{Jobs: make([]periodicRow, len(shown)), Pager: r.pager(from, len(shown), int64(len(all)))}
	named := map[string]int{}
	for _, j := range all {
		if named[j.Name]++; j.Stuck {
			p.Stuck++
		}
	}
	for i, j := range shown {
		p.Jobs[i] = periodicRow{Periodic: j, r: r}
		if named[j.Name] > 1 || j.Namespace != "" && j.Namespace != "default" {
			p.Jobs[i].Space = cmp.Or(j.Namespace, "no namespace")
		}
	}
	return &page{Template: "periodic", Title: "Periodic jobs", Data: p, Topic: "periodic", Next: p.Pager.Next}, nil
}

// periodicJob is the one of the address, as the user may see it.
func (r *request) periodicJob() (periodicRow, error) {
	p, err := r.fleet.PeriodicJob(r.Context(), r.name("name"), r.query("namespace"))
	return periodicRow{Periodic: p, r: r}, err
}

func (r *request) periodicOne() (*page, error) {
	p, err := r.periodicJob()
	if err != nil {
		return nil, err
	}
	for _, text := range [][2]string{{string(p.Args), string(p.Raw.Args)}, {p.Cron, p.Raw.Cron}, {p.Description, p.Raw.Description}, {p.Why, p.Raw.Why}} {
		r.hides(text[0], text[1])
	}
	p.PeriodicJob = fleet.PeriodicOf(p.Raw, r.mask()).PeriodicJob
	return &page{Template: "periodicjob", Title: "Periodic job " + p.Name, Data: p, Topic: "periodic"}, nil
}

// periodicDo makes a page function of what is done to the periodic job of the address.
func periodicDo(do func(r *request, p periodicRow, back string) (*page, error)) func(*request) (*page, error) {
	return func(r *request) (*page, error) {
		p, err := r.periodicJob()
		if err != nil {
			return nil, err
		}
		back := p.Address()
		if r.form("back") == "list" {
			back = r.url("periodic")
		}
		return do(r, p, back)
	}
}

func (r *request) setPeriodic(p periodicRow, back string) (*page, error) {
	if strings.HasSuffix(strings.TrimSuffix(r.path, ".json"), "/disable") {
		if err := p.Disable(r.Context()); err != nil {
			return nil, err
		}
		return r.done(back, map[string]bool{"disabled": true}, "The periodic job %s is disabled: its ticks push nothing.", p.Name)
	}
	if err := p.Enable(r.Context()); err != nil {
		return nil, err
	}
	return r.done(back, map[string]bool{"disabled": false}, "The periodic job %s is enabled: its next tick pushes, and those that have passed do not come again.", p.Name)
}

func (r *request) pushPeriodic(p periodicRow, back string) (*page, error) {
	jid, err := p.Push(r.Context())
	switch {
	case err != nil && redisconn.Classify(err) == redisconn.Command:
		return nil, &fault{Status: http.StatusConflict, Text: words.Sentence(err.Error()), Do: "Mend the entry where it is made."}
	case err != nil:
		return nil, err
	case jid == "":
		return r.undone(back, nil, "Client middleware stopped the job of %s: nothing was pushed.", p.Name)
	}
	out, err := r.done(back, map[string]string{"jid": jid}, "The job %s of %s is pushed to the queue %s, beside its ticks.", jid, p.Name, p.Queue)
	s := out.Data.(said)
	s.jobs = []string{jid}
	out.Data = s
	return out, err
}

func (r *request) deletePeriodic() (*confirm, error) {
	p, err := r.periodicJob()
	if err != nil {
		return nil, err
	}
	detail := "Its ticks push nothing any more. Jobs that it has pushed stay."
	if p.Tag != "" {
		detail += " It is there again when a process with the tag " + p.Tag + " starts, unless its configuration has it no more: disable it, if it shall rest."
	}
	return &confirm{
		Question: "Delete the periodic job " + p.Name + "?", Detail: detail,
		Button: "Delete", Action: p.Address("delete"), Back: p.Address(), Count: 1,
		do: func() (*page, error) {
			if err := p.Delete(r.Context()); err != nil {
				return nil, err
			}
			return r.done(r.url("periodic"), map[string]int{"done": 1}, "The periodic job %s is deleted.", p.Name)
		},
	}, nil
}
