package web

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/doctor"
	"github.com/troupehq/troupe/internal/words"
	"github.com/troupehq/troupe/web/internal/draw"
)

// classesEvery is the age at which the numbers of classes are read again; processes write theirs every ten seconds.
const classesEvery = 10 * time.Second

// mostClasses is how many classes a page has.
const mostClasses = 200

// classesPage is the data of the list of classes.
type classesPage struct {
	Window  string     `json:"window"`
	Classes []classRow `json:"classes"` // those in trouble first, then what took the most time
	More    int        `json:"more"`
}

// classRow is what the runs of a class were like.
type classRow struct {
	Class   string   `json:"class"`
	Runs    int64    `json:"runs"` // failed ones included
	Failed  int64    `json:"failed"`
	Seconds float64  `json:"run_s"` // of all successful runs together
	P50     *float64 `json:"p50_s"` // of successful runs, at most; null if none is known
	P95     *float64 `json:"p95_s"`
	P99     *float64 `json:"p99_s"`
	Trouble string   `json:"trouble,omitempty"` // "no handler", or "all fail"
}

// Failing is the part of the runs that failed, in percent.
func (c classRow) Failing() string {
	if c.Runs == 0 {
		return "–"
	}
	part := 100 * float64(c.Failed) / float64(c.Runs)
	if part > 0 && part < 1 {
		return "< 1 %"
	}
	return fmt.Sprintf("%.0f %%", part)
}

func rowOf(class string, r *inspect.Runs) classRow {
	row := classRow{Class: class, Runs: r.Count, Failed: r.Failed, Seconds: r.Time.Seconds(), P50: secondsOf(r, 0.5), P95: secondsOf(r, 0.95), P99: secondsOf(r, 0.99)}
	if r.Count > 0 && r.Failed >= r.Count {
		row.Trouble = "all fail"
	}
	return row
}

// secondsOf is a quantile in seconds; nil if no run time is known.
func secondsOf(r *inspect.Runs, part float64) *float64 {
	s := r.Quantile(part).Seconds()
	if s == 0 {
		return nil
	}
	return &s
}

// window is the time that is looked back over, and the span that is counted apart.
type window struct {
	Name       string
	Back, Cell time.Duration
}

// windows are those that pages offer, as far as Redis remembers.
var windows = []window{{"1h", time.Hour, time.Minute}, {"8h", 8 * time.Hour, 10 * time.Minute}, {"72h", 72 * time.Hour, time.Hour}}

// window is the one that the address names.
func (r *request) window() (window, error) {
	name := cmp.Or(r.query("over"), windows[0].Name)
	for _, w := range windows {
		if w.Name == name {
			return w, nil
		}
	}
	return window{}, wrong("Use over=1h, over=8h or over=72h.", "The numbers are not kept for %q.", name)
}

// runs are those of classes in a window; without classes of all.
func (r *request) runs(w window, classes ...string) (map[string][]inspect.Runs, error) {
	name := fmt.Sprintf("classes:%s:%q", w.Name, classes)
	return together(r.Context(), &r.looks, name, classesEvery, func(ctx context.Context) (map[string][]inspect.Runs, error) {
		return r.fleet.Inspector.Runs(ctx, w.Back, w.Cell, classes...)
	})
}

// sumOf is all spans in one, of the time of the first.
func sumOf(spans []inspect.Runs) (sum inspect.Runs) {
	for i := range spans {
		sum.Add(&spans[i])
	}
	return sum
}

func (r *request) classes() (*page, error) {
	w, err := r.window()
	if err != nil {
		return nil, err
	}
	all, err := r.runs(w)
	if err != nil {
		return nil, err
	}
	p := classesPage{Window: w.Name, Classes: []classRow{}}
	for _, class := range slices.Sorted(maps.Keys(all)) {
		sum := sumOf(all[class])
		p.Classes = append(p.Classes, rowOf(class, &sum))
	}
	if s := r.sampler.soon(r.Context()); s != nil {
		p.Classes = withoutHandlers(p.Classes, s.Findings)
	}
	troubledFirst(p.Classes, func(c classRow) bool { return c.Trouble != "" })
	healthy := slices.IndexFunc(p.Classes, func(c classRow) bool { return c.Trouble == "" })
	slices.SortStableFunc(p.Classes[max(healthy, 0):], func(a, b classRow) int { return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(b.Runs, a.Runs)) })
	if len(p.Classes) > mostClasses {
		p.More, p.Classes = len(p.Classes)-mostClasses, p.Classes[:mostClasses]
	}
	return &page{Template: "classes", Title: "Classes", Data: p, Topic: "classes"}, nil
}

// withoutHandlers marks the classes that the last audit found to have no handler, and adds those that
// have not run.
func withoutHandlers(rows []classRow, findings []doctor.Finding) []classRow {
	for _, f := range findings {
		if f.Code != doctor.NoHandler {
			continue
		}
		i := slices.IndexFunc(rows, func(c classRow) bool { return c.Class == f.Class })
		if i < 0 {
			i, rows = len(rows), append(rows, classRow{Class: f.Class})
		}
		rows[i].Trouble = "no handler"
	}
	return rows
}

// classPage is the data of the page of one class.
type classPage struct {
	classRow
	Window string     `json:"window"`
	Chart  draw.Chart `json:"chart"`
	Spans  []spanRow  `json:"spans"` // the newest first, those with runs
	Heat   draw.Heat  `json:"-"`
}

// spanRow is what a class did in a span of time.
type spanRow struct {
	At time.Time `json:"at"`
	classRow
}

func (r *request) class() (*page, error) {
	w, err := r.window()
	if err != nil {
		return nil, err
	}
	name := r.name("class")
	all, err := r.runs(w, name)
	if err != nil {
		return nil, err
	}
	p := classPage{Window: w.Name, Spans: []spanRow{}, classRow: classRow{Class: name}}
	if spans := all[name]; spans != nil {
		sum := sumOf(spans)
		p.classRow = rowOf(name, &sum)
		ran, failed := draw.Series{Name: "run"}, draw.Series{Name: "failed"}
		for _, c := range spans {
			ran.Points = append(ran.Points, draw.Point{At: c.At, Value: float64(c.Count)})
			failed.Points = append(failed.Points, draw.Point{At: c.At, Value: float64(c.Failed)})
		}
		p.Chart = draw.Chart{Title: "Runs", Unit: "in " + words.Span(w.Cell), Bars: true, Series: []draw.Series{ran, failed}, From: spans[0].At, To: time.Now(), Rows: 24}
		if s := r.sampler.soon(r.Context()); s != nil && s.Past != nil {
			p.Chart = p.Chart.Mark(s.Past.Marks)
		}
		p.Heat = draw.Heat{Cells: spans, Span: w.Cell}
		p.Spans = spansOf(spans, w)
	}
	return &page{Template: "class", Title: "Class " + name, Data: p, Topic: "classes"}, nil
}

// spansOf sums cells up to the rows of a table: of an hour by ten minutes, of longer by hours.
func spansOf(cells []inspect.Runs, w window) []spanRow {
	wide := time.Hour
	if w.Back <= time.Hour {
		wide = 10 * time.Minute
	}
	rows := []spanRow{}
	for i := len(cells) - 1; i >= 0; {
		at := cells[i].At.Truncate(wide)
		var sum inspect.Runs
		for ; i >= 0 && cells[i].At.Truncate(wide).Equal(at); i-- {
			sum.Add(&cells[i])
		}
		if sum.Count > 0 {
			rows = append(rows, spanRow{at, rowOf("", &sum)})
		}
	}
	return rows
}
