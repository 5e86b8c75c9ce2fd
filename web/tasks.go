package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/troupehq/troupe/internal/console/bulk"
	"github.com/troupehq/troupe/internal/words"
)

// taskRow is a task of the dashboard.
type taskRow struct{ bulk.Progress }

// batchTask begins the name of a batch in the place of a set.
const batchTask = "batch:"

// Title is that of the set, queue or batch.
func (t taskRow) Title() string {
	if id, ok := strings.CutPrefix(t.Set, batchTask); ok {
		return "the batch " + words.Head(id)
	}
	k, _ := kindOf(t.Set)
	return k.Title
}

// start begins a task, and returns its id. What became of it is in the audit at its end.
func (r *request) start(k setKind, t bulk.Task) (id string, err error) {
	last := *r // for the audit, after the request
	last.Request = r.WithContext(context.WithoutCancel(r.ctx))
	route := &route{method: http.MethodPost, path: strings.TrimSuffix(r.path, ".json")}
	id = strings.ToLower(rand.Text()[:10])
	chosen := t.Filter.Told(r.fleet.Mask, r.searchesArgs())
	if k.Rule != nil { // others see it
		chosen = strings.TrimSuffix("held by "+r.fleet.Mask.Rule(k.Rule.Name, k.Rule.Key)+", "+chosen, ", ")
	}
	err = r.tasks.Start(t, bulk.Progress{ID: id, Set: k.Name, Filter: chosen, User: r.user.Name}, func(end bulk.Progress, err error) {
		last.audit(route, &page{Data: said{Kind: "ok", Text: end.Tell(), Counts: end.Counts, task: id}}, err)
	})
	if errors.Is(err, bulk.ErrBusy) {
		err = &fault{Status: http.StatusTooManyRequests, Text: "Four tasks run already.", Do: "Wait until one has ended, or cancel it."}
	}
	return id, err
}

// task is that of the address.
func (r *request) task() (taskRow, error) {
	for _, s := range r.tasks.States() {
		if s.ID == r.name("id") {
			return taskRow{s}, nil
		}
	}
	return taskRow{}, &fault{
		Status: http.StatusNotFound, Text: "There is no task " + r.name("id") + " here.",
		Do: "Tasks run in the process of the dashboard, and end with it; the last 50 are remembered.",
	}
}

// taskRefresh is after how many seconds browsers load a page again of tasks that run.
const taskRefresh = 2

func (r *request) taskList() (*page, error) {
	all := []taskRow{}
	for _, s := range r.tasks.States() {
		all = append(all, taskRow{s})
	}
	return tasksPage(&page{Template: "tasks", Title: "Tasks", Data: all}, all...), nil
}

func (r *request) taskPage() (*page, error) {
	t, err := r.task()
	if err != nil {
		return nil, err
	}
	return tasksPage(&page{Template: "task", Title: "Task " + t.ID, Data: t}, t), nil
}

// tasksPage is a page that is renewed as long as one of its tasks runs.
func tasksPage(p *page, tasks ...taskRow) *page {
	if slices.ContainsFunc(tasks, func(t taskRow) bool { return t.Ended.IsZero() }) {
		p.Topic, p.Refresh = "overview", taskRefresh // which changes at each look
	}
	return p
}

func (r *request) cancelTask() (*page, error) {
	t, err := r.task()
	if err != nil {
		return nil, err
	}
	back := r.url("tasks", t.ID)
	if !t.Ended.IsZero() {
		return r.undone(back, t.Counts, "The task has ended already: nothing was cancelled.")
	}
	r.tasks.Cancel(t.ID, cmp.Or(r.user.Name, "you"))
	return r.done(back, t.Counts, "The task is being cancelled: it ends before the next job.")
}
