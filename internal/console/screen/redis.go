package screen

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/bulk"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/control"
	"github.com/troupehq/troupe/internal/flight"
	"github.com/troupehq/troupe/internal/tree"
	"github.com/troupehq/troupe/internal/words"
)

// Redis is a source of what the screen shows: all that Redis has, whichever process wrote it. It is for one screen.
type Redis struct {
	*fleet.Fleet
	ReadOnly bool // ask no process for anything
	Audit    bool // have the overview tell what the doctor finds

	sampler fleet.Sampler
	meter   Meter
	asked   time.Time // when processes were asked to publish what is so now
	audit   audit
}

// Look reads what a page shows.
func (r *Redis) Look(ctx context.Context, q Query) (*Picture, error) {
	switch q.Page.Name {
	case "help":
		return &Picture{Rows: q.text(Plain, help)}, nil
	case "queue":
		return r.queue(ctx, &q)
	case "explain":
		return r.explain(ctx, &q)
	case "events":
		return r.events(ctx, &q)
	}
	if set := bulk.SetOf(r.Inspector, q.Page.Name); set != nil {
		return r.set(ctx, &q, set)
	}
	processes, err := r.processes(ctx, q.Page.Arg)
	if err != nil {
		return nil, err
	}
	switch q.Page.Name {
	case "overview":
		return r.overview(ctx, &q, processes)
	case "tree":
		return r.tree(ctx, &q, processes)
	case "queues":
		rows, _, err := r.queues(ctx, processes)
		return q.tablePicture(queueNames, rows), err
	case "running":
		return r.running(ctx, &q)
	}
	return q.tablePicture(processNames, r.processRows(processes)), nil
}

// freshEvery is how often processes are asked to publish at most.
const freshEvery = time.Second

// processes are those of the fleet, after those of troupe have published what is so now: all, or the
// one that is named.
func (r *Redis) processes(ctx context.Context, only string) ([]fleet.Process, error) {
	all, err := r.Processes(ctx)
	if err != nil || r.ReadOnly || time.Since(r.asked) < freshEvery {
		return all, err
	}
	r.asked = time.Now()
	asked := slices.DeleteFunc(slices.Clone(all), func(p fleet.Process) bool {
		return p.Phase == fleet.Silent || only != "" && p.Identity != only // the silent would be waited for
	})
	if fresh, err := r.Refresh(ctx, asked); err != nil || !fresh || len(fleet.Ours(asked)) == 0 {
		return all, err
	}
	return r.Processes(ctx)
}

// known is a number, if it is known.
func known[T any](format string, n *T) string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf(format, *n)
}

const processNames = "IDENTITY PHASE BUSY BEAT QUEUES RESTARTS UNRESPONSIVE RSS TAG VERSION"

// processRows are those in trouble, and then the others.
func (r *Redis) processRows(all []fleet.Process) (rows []Row) {
	troubled := 0
	for _, p := range all {
		row := cells(p.Identity, Page{"tree", p.Identity}, p.Identity, p.Phase, fmt.Sprintf("%d/%d", p.Busy, p.Slots), words.Since(p.Beat),
			strings.Join(p.Queues, ","), known("%d", p.Restarts), known("%d", p.Unresponsive), fmt.Sprintf("%d MB", p.RSS/1024), p.Tag, p.Version)
		at := len(rows)
		switch {
		case p.Troubled():
			row.Line[1] = Span{p.Phase + " !", Red}
			at, troubled = troubled, troubled+1
		case p.Phase != fleet.Running:
			row.Line[1].Style = Yellow
		}
		if p.Known != nil {
			row.Acts = []Act{
				r.signal("Q", p, "quiet "+p.Identity+": it takes no jobs until it is started again", (*inspect.Process).Quiet),
				r.signal("S", p, "stop "+p.Identity+": it puts back what does not end in time, and ends", (*inspect.Process).Stop),
			}
		}
		rows = slices.Insert(rows, at, row)
	}
	return rows
}

func (r *Redis) signal(key string, p fleet.Process, what string, tell func(*inspect.Process, context.Context) error) Act {
	return Act{key, what, func(ctx context.Context) (string, error) {
		return "told", cmp.Or(tell(p.Known, ctx), control.Wake(ctx, r.Fleet.Redis, p.Identity))
	}}
}

// tree shows the tree of the process that q names. Without a name it shows the tree of the only process,
// or a list if there are several.
func (r *Redis) tree(ctx context.Context, q *Query, all []fleet.Process) (*Picture, error) {
	if ours := fleet.Ours(all); q.Page.Arg == "" && len(ours) == 1 {
		q.Page.Arg = ours[0]
	}
	if q.Page.Arg == "" {
		return q.tablePicture(processNames, r.processRows(all)), nil // Enter shows the tree of one
	}
	t, err := r.Tree(ctx, q.Page.Arg)
	head := q.text(Bold, "%s runs no more.", q.Page.Arg)[0]
	if i := slices.IndexFunc(all, func(p fleet.Process) bool { return p.Identity == q.Page.Arg }); i >= 0 {
		head = r.processRows(all[i : i+1])[0]
		head.Line, head.Enter = q.text(Bold, "%s: %s, %d of %d busy", all[i].Identity, all[i].Phase, all[i].Busy, all[i].Slots)[0].Line, Page{}
	}
	if t == nil {
		t = tree.Tree{{Path: "no tree: it is a process of Ruby, or has died"}}
	}
	return q.TreePicture(head, t), err
}

const queueNames = "NAME WAITING LATENCY STATE IN/S OUT/S LISTENERS"

func (r *Redis) queues(ctx context.Context, processes []fleet.Process) (rows []Row, all []fleet.Queue, err error) {
	all, err = r.sampler.Queues(ctx, r.Fleet, processes)
	for _, q := range all {
		state, what := "", "pause the queue "+q.Name+": nobody takes jobs from it any more"
		switch {
		case q.Paused:
			state, what = "paused", "unpause the queue "+q.Name
		case q.Listeners == 0 && q.Quiet > 0:
			state = "all quiet"
		case q.Listeners == 0:
			state = "nobody listens"
		}
		row := cells(q.Name, Page{"queue", q.Name}, q.Name, words.Count(q.Waiting), words.Brief(time.Duration(q.Latency*float64(time.Second))), state,
			known("%.1f", q.In), known("%.1f", q.Out), words.Count(q.Listeners))
		row.Line[3].Style = Yellow
		row.Acts = []Act{{"P", what, func(ctx context.Context) (string, error) {
			return "done", r.Inspector.Queue(q.Name).SetPaused(ctx, !q.Paused)
		}}}
		rows = append(rows, row)
	}
	return rows, all, err
}

func (r *Redis) events(ctx context.Context, q *Query) (*Picture, error) {
	all, err := flight.Latest(ctx, r.Fleet.Redis)
	slices.Reverse(all)
	all = flight.Fold(all)
	slices.Reverse(all)
	var rows []Row
	for _, e := range r.Mask.Records(all[:min(len(all), eventsMost)]) {
		rows = append(rows, cells(e.Process+e.At.String(), explanation(e.JID), words.Since(e.At), e.Kind, e.Class, e.Text, cmp.Or(e.Actor, e.Capsule), e.Process, e.JID))
	}
	return q.tablePicture("AGO KIND CLASS TEXT WHERE PROCESS JID", rows), err
}

const (
	wrongMost  = 12 // sentences
	queuesMost = 5
	fleetMost  = 50 // processes
	eventsMost = 1000
)

// overview is what is wrong now, the totals, the fullest queues and the processes.
func (r *Redis) overview(ctx context.Context, q *Query, processes []fleet.Process) (*Picture, error) {
	queueRows, queues, err1 := r.queues(ctx, processes)
	st, err2 := r.Inspector.Stats(ctx)
	overdue, err3 := r.Overdue(ctx)
	all := fleet.Wrong(processes, queues, overdue)
	dangers, told := r.audited()
	wrong := fleet.Worst(append(all, dangers...))
	var rows []Row
	for _, p := range wrong[:min(len(wrong), wrongMost)] {
		rows = append(rows, q.text(Red, "! %s", p.Text)...)
	}
	if more := len(wrong) - wrongMost; more > 0 {
		rows = append(rows, q.text(Red, "! and %d more", more)...)
	} else if len(wrong) == 0 {
		rows = q.text(Green, "Nothing is wrong.")
	}
	if told != "" {
		rows = append(rows, q.text(Dim, "%s", told)...)
	}
	slots := 0
	for _, p := range processes {
		slots += p.Slots
	}
	r.meter.Window = 10 * time.Second
	done, failed := r.meter.Add(time.Now(), uint64(st.Processed), uint64(st.Failed))
	rows = append(rows, q.text(Plain, "%.1f/s processed  %.1f/s failed  %d of %d busy  %s", done, failed, st.WorkersSize, slots, Spark(r.meter.History, 20))...)
	rows = append(rows, q.text(Plain, "processed %s  failed %s  enqueued %s  retry %s  scheduled %s  dead %s", words.Count(st.Processed), words.Count(st.Failed),
		words.Count(st.Enqueued), words.Count(st.RetrySize), words.Count(st.ScheduledSize), words.Count(st.DeadSize))...)
	rows = append(append(rows, Row{}), q.table(queueNames, queueRows[:min(len(queueRows), queuesMost)])...)
	processRows := r.processRows(processes)
	rows = append(append(rows, Row{}), q.table(processNames, processRows[:min(len(processRows), fleetMost)])...)
	return &Picture{Rows: rows}, cmp.Or(err1, err2, err3)
}
