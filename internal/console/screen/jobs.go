package screen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/bulk"
	"github.com/troupehq/troupe/internal/console/explain"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/words"
)

const (
	jobNames = "WHEN CLASS ERROR QUEUE TRY JID ARGS"

	// searchMost is how many jobs a search through a set or a queue looks at, foundMost how many it
	// finds.
	searchMost = 5000
	foundMost  = 200
)

// explanation is the page that explains a job; the zero Page for a job without an id.
func explanation(jid string) (p Page) {
	if jid != "" {
		p = Page{"explain", jid}
	}
	return p
}

// distance is how far off a time is; "" for none.
func distance(at time.Time) string {
	switch until := time.Until(at); {
	case at.IsZero():
		return ""
	case until > 0:
		return "in " + words.Brief(until)
	default:
		return words.Since(at) + " ago"
	}
}

// progress puts the progress of a job before the last cell of its row, if the job is iterable, or runs and has set any.
func (r *Redis) progress(ctx context.Context, rows []Row, jid func(i int) (string, *inspect.Progress)) error {
	jids, told := make([]string, len(rows)), make([]*inspect.Progress, len(rows))
	for i := range jids {
		jids[i], told[i] = jid(i)
	}
	its, err := r.Inspector.Iterations(ctx, jids...)
	for i := range its {
		if text := explain.ProgressOf(&its[i], told[i], r.Mask).String(); text != "" {
			last := &rows[i].Line[len(rows[i].Line)-1]
			last.Text = words.Head(text + "  " + last.Text)
		}
	}
	return err
}

// jobRow is the row of a job, with a time.
func (r *Redis) jobRow(when string, j *inspect.JobRecord, acts ...Act) Row {
	sum := r.Mask.Summary(j)
	row := cells(cmp.Or(j.JID, j.Raw), explanation(j.JID), when, words.Head(sum.Class), words.Head(strings.TrimSuffix(sum.ErrorClass+": "+sum.ErrorMessage, ": ")),
		j.Queue, words.Count(j.Payload.Failures()), words.Head(j.JID), words.Head(string(sum.Args)))
	row.Acts = acts
	return row
}

// titled is a job in a question.
func titled(j *inspect.JobRecord) string {
	return strings.TrimSpace(words.Head(cmp.Or(j.Summary().Class, "an entry that is no job")) + " " + words.Head(j.JID))
}

// act is an Act that moves a job.
func act(key, what, past string, do func(context.Context) (inspect.Outcome, error)) Act {
	return Act{key, what, func(ctx context.Context) (string, error) {
		outcome, err := do(ctx)
		if outcome == inspect.Done {
			return past, err
		}
		return string(outcome), err
	}}
}

// setActs are what can be done to an entry of a set, by its exact bytes.
func setActs(e *inspect.SortedEntry) (acts []Act) {
	for _, a := range bulk.Actions {
		if a.Timed || !a.Allows(e.Set.Name) {
			continue
		}
		what := fmt.Sprintf("%s %s of the set %s", a.Name, titled(&e.JobRecord), e.Set.Name)
		acts = append(acts, act(strings.ToUpper(a.Name[:1]), what, a.Past, func(ctx context.Context) (inspect.Outcome, error) {
			return a.Act(ctx, bulk.Entry{Sorted: e}, &bulk.Task{})
		}))
	}
	return acts
}

// set is a window of the entries of a set, or those that match the filter.
func (r *Redis) set(ctx context.Context, q *Query, set *inspect.JobSet) (*Picture, error) {
	up := set.Name != "dead" // the next one due first, or the last dead
	draw := func(e *inspect.SortedEntry) Row {
		when := cmp.Or(distance(e.At), scores.Words(e.Score))
		return r.jobRow(when, &e.JobRecord, setActs(e)...)
	}
	from, limit := q.window()
	entries, size, err := set.Page(ctx, from, limit, up)
	if q.Filter == "" || err != nil {
		rows := drawn(entries, draw)
		err = cmp.Or(err, r.progress(ctx, rows, func(i int) (string, *inspect.Progress) { return entries[i].JID, nil }))
		return window(q, from, size, rows), err
	}
	all := set.Each(ctx)
	if up {
		all = set.Fetch(ctx, 0, 1e300, "")
	}
	return search(q, size, all, draw)
}

func (r *Redis) queue(ctx context.Context, q *Query) (*Picture, error) {
	queue := r.Inspector.Queue(q.Page.Arg)
	draw := func(j *inspect.QueuedJob) Row {
		return r.jobRow(distance(j.Summary().EnqueuedAt), &j.JobRecord, act("D", "delete "+titled(&j.JobRecord)+" of the queue "+queue.Name, "deleted", j.Delete))
	}
	from, limit := q.window()
	jobs, size, err := queue.Page(ctx, from, limit)
	if q.Filter == "" || err != nil {
		rows := drawn(jobs, draw)
		err = cmp.Or(err, r.progress(ctx, rows, func(i int) (string, *inspect.Progress) { return jobs[i].JID, nil }))
		return window(q, from, size, rows), err
	}
	return search(q, size, queue.Each(ctx), draw)
}

// window is what to read of many rows: what is seen, and half as much on both sides.
func (q *Query) window() (from, limit int) {
	from = max(0, q.From-q.Rows/2)
	return from, q.From + q.Rows + q.Rows/2 - from
}

func drawn[T any](all []T, draw func(T) Row) (rows []Row) {
	for _, one := range all {
		rows = append(rows, draw(one))
	}
	return rows
}

func window(q *Query, from int, size int64, rows []Row) *Picture {
	p := q.tablePicture(jobNames, rows)
	p.Offset, p.Total = from, int(size)
	return p
}

// search goes through jobs, as far as is bearable again and again.
func search[T any](q *Query, size int64, all iter.Seq2[T, error], draw func(T) Row) (*Picture, error) {
	looked := int64(0)
	var rows []Row
	for one, err := range all {
		if err != nil {
			return nil, err
		}
		if row := draw(one); q.matches(row) {
			rows = append(rows, row)
		}
		if looked++; looked == searchMost || len(rows) == foundMost {
			break
		}
	}
	p := q.tablePicture(jobNames, rows)
	if looked < size {
		p.Note = fmt.Sprintf("searched %s of %s", words.Count(looked), words.Count(size))
	}
	return p, nil
}

func (r *Redis) cancelAct(j *inspect.JobRecord) Act {
	return Act{"C", "cancel " + titled(j) + ": its context ends, its handler decides", func(ctx context.Context) (string, error) {
		process, err := r.Inspector.CancelRunning(ctx, j.JID)
		if errors.Is(err, inspect.ErrNotFound) {
			return string(inspect.Gone), nil
		}
		return "cancelled in " + process, err
	}}
}

func (r *Redis) running(ctx context.Context, q *Query) (*Picture, error) {
	works, err := r.Inspector.Works(ctx)
	var rows []Row
	for _, w := range works {
		sum := r.Mask.Summary(&w.Job)
		row := cells(w.Process+w.Thread, explanation(w.Job.JID), words.Since(w.RunAt), words.Head(sum.Class), w.Queue, w.Process, words.Head(w.Job.JID), words.Head(string(sum.Args)))
		row.Acts = []Act{r.cancelAct(&w.Job)}
		rows = append(rows, row)
	}
	err = cmp.Or(err, r.progress(ctx, rows, func(i int) (string, *inspect.Progress) { return works[i].Job.JID, works[i].Progress }))
	return q.tablePicture("RUNS CLASS QUEUE PROCESS JID ARGS", rows), err
}

// explain says where a job is. Its acts are those that its place allows.
func (r *Redis) explain(ctx context.Context, q *Query) (*Picture, error) {
	_, err := r.processes(ctx, "")
	x, failed := explain.Job(ctx, r.Fleet.Redis, q.Page.Arg, r.Mask)
	if err := cmp.Or(err, failed); err != nil {
		return nil, err
	}
	rows := q.text(Bold, "%s: %s", x.JID, cmp.Or(x.Place, "nowhere"))
	var acts []Act
	if x.Record != nil {
		sum := r.Mask.Summary(x.Record)
		rows = append(rows, q.text(Plain, "%s %s", words.Head(sum.Class), words.Head(string(sum.Args)))...)
		if x.Place == "running" {
			acts = []Act{r.cancelAct(x.Record)}
		}
	}
	if set := bulk.SetOf(r.Inspector, x.Place); set != nil {
		if e, err := set.FindJob(ctx, x.JID); err == nil {
			acts = setActs(e)
		}
	}
	for _, reason := range x.Why {
		rows = append(rows, q.text(Plain, "%s", reason.Text)...)
	}
	rows = append(rows, q.text(Cyan, "Next: %s", x.Next)...)
	for _, step := range x.Timeline {
		rows = append(rows, q.text(Plain, "%s  %s  (%s)", step.At.Format("2006-01-02T15:04:05.000Z"), step.Event, step.Source)...)
	}
	rows = append(rows, q.text(Dim, "Searched: %s", strings.Join(x.Searched, ", "))...)
	for i := range rows {
		rows[i].Acts = acts
	}
	return &Picture{Rows: rows}, nil
}
