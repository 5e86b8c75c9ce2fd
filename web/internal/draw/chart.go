// Package draw draws on the server what pages show: as SVG without words and styles, whose classes a
// stylesheet colors.
package draw

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"
)

// Chart shows numbers over time: lines, or bars of one series. It is drawn on the server, and a
// table has the same numbers.
type Chart struct {
	Title  string    `json:"title"`
	Unit   string    `json:"unit"` // of the numbers: "a second"
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Bars   bool      `json:"-"`
	Series []Series  `json:"series"`
	Marks  []Mark    `json:"marks,omitempty"` // the oldest first; those from From to To are drawn
	Rows   int       `json:"-"`               // most of the table; 0 means 12

	Gap time.Duration `json:"-"` // a time without points that no line is drawn over; 0 means a minute
}

// Series is one of a chart. Its color is its place.
type Series struct {
	Name   string  `json:"name"`
	Points []Point `json:"points"`
}

// Mark is a time with a name.
type Mark struct {
	At    time.Time `json:"at"`
	Label string    `json:"label"`
}

// Point is a number at a time. NaN is a gap, and not told.
type Point struct {
	At    time.Time `json:"at"`
	Value float64   `json:"value"`
}

// The box that is drawn in; browsers stretch it.
const chartWide, chartHigh = 600.0, 120.0

// Top is the upper end of the scale: the largest number, rounded up.
func (c Chart) Top() float64 {
	top := 0.0
	for _, s := range c.Series {
		for _, p := range s.Points {
			top = max(top, p.Value)
		}
	}
	if top == 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(top)))
	for _, n := range []float64{1, 1.5, 2, 3, 4, 5, 6, 8, 10} {
		if n*unit >= top {
			return n * unit
		}
	}
	return top
}

// Known reports whether there is anything to draw.
func (c Chart) Known() bool {
	for _, s := range c.Series {
		if len(s.Points) > 1 {
			return true
		}
	}
	return false
}

// SVG is the drawing, without words.
func (c Chart) SVG() template.HTML {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" preserveAspectRatio="none" aria-hidden="true" focusable="false">`, chartWide, chartHigh)
	for _, y := range []float64{0, 0.5, 1} {
		fmt.Fprintf(&b, `<line class="grid" x1="0" x2="%g" y1="%g" y2="%g"/>`, chartWide, y*chartHigh, y*chartHigh)
	}
	top := c.Top()
	from, to := c.span()
	whole := to.Sub(from).Seconds()
	x := func(t time.Time) float64 { return chartWide * t.Sub(from).Seconds() / max(whole, 1) }
	y := func(v float64) float64 { return chartHigh * (1 - v/top) }
	for i, s := range c.Series {
		if c.Bars {
			wide := chartWide / float64(max(len(s.Points), 1))
			for n, p := range s.Points {
				fmt.Fprintf(&b, `<rect class="s%d" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, i, float64(n)*wide+wide*0.1, y(p.Value), wide*0.8, chartHigh-y(p.Value))
			}
			continue
		}
		for _, run := range runs(s.Points, cmp.Or(c.Gap, time.Minute)) {
			var d strings.Builder
			for n, p := range run {
				fmt.Fprintf(&d, "%c%.1f %.1f", "ML"[min(n, 1)], x(p.At), y(p.Value))
			}
			if i == 0 {
				fmt.Fprintf(&b, `<path class="area s%d" d="%sL%.1f %gL%.1f %gZ"/>`, i, d.String(), x(run[len(run)-1].At), chartHigh, x(run[0].At), chartHigh)
			}
			fmt.Fprintf(&b, `<path class="line s%d" d="%s"/>`, i, d.String())
		}
	}
	for _, m := range c.Marks { // a line, and something wider to point at
		fmt.Fprintf(&b, `<g class="deploy" data-at="%s"><title>%s, %s UTC</title><line x1="%.1f" x2="%.1f" y1="0" y2="%g"/><rect x="%.1f" width="8" height="%g" fill-opacity="0"/></g>`,
			m.At.UTC().Format(time.RFC3339), template.HTMLEscapeString(m.Label), m.At.UTC().Format("Jan 2, 15:04"), x(m.At), x(m.At), chartHigh, x(m.At)-4, chartHigh)
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // numbers of ours, and labels that are escaped
}

// span is the time that is drawn: bars stand side by side, the last one to its end.
func (c Chart) span() (from, to time.Time) {
	if !c.Bars || len(c.Series) == 0 || len(c.Series[0].Points) < 2 {
		return c.From, c.To
	}
	points := c.Series[0].Points
	return points[0].At, points[len(points)-1].At.Add(c.step())
}

// step is the time between two points.
func (c Chart) step() time.Duration {
	if len(c.Series) == 0 || len(c.Series[0].Points) < 2 {
		return 0
	}
	return c.Series[0].Points[1].At.Sub(c.Series[0].Points[0].At)
}

// mostMarks is how many a chart has: the last ones.
const mostMarks = 50

// Mark sets the marks of a chart: of all those from From to To.
func (c Chart) Mark(all []Mark) Chart {
	c.Marks = nil
	for _, m := range all {
		if !m.At.Before(c.From) && !m.At.After(c.To) {
			c.Marks = append(c.Marks, m)
		}
	}
	c.Marks = c.Marks[max(0, len(c.Marks)-mostMarks):]
	return c
}

// Layout is how its times are written: as short as they can be told apart.
func (c Chart) Layout() string {
	day := 24 * time.Hour
	switch {
	case c.step() >= day:
		return "Jan 2"
	case c.To.Sub(c.From) > day/2:
		return "Jan 2, 15:04"
	}
	return time.TimeOnly
}

// runs are points without gaps between them.
func runs(points []Point, gap time.Duration) (all [][]Point) {
	begin := 0
	for i := range points {
		if i+1 == len(points) || points[i+1].At.Sub(points[i].At) > gap {
			all = append(all, points[begin:i+1])
			begin = i + 1
		}
	}
	return all
}

// Table has the numbers as text, for people who cannot see the chart: a row for each time, with a number for each series.
func (c Chart) Table() (rows []Row) {
	if len(c.Series) == 0 {
		return nil
	}
	most := c.Rows
	if most == 0 {
		most = 12
	}
	points := c.Series[0].Points
	step := max(1, (len(points)+most-1)/most)
	for i := len(points) - 1; i >= 0; i -= step {
		row := Row{At: points[i].At}
		for _, s := range c.Series {
			if i < len(s.Points) {
				row.Values = append(row.Values, s.Points[i].Value)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// Row is a row of the table. The newest comes first.
type Row struct {
	At     time.Time
	Values []float64
}

// Thin makes one point of those in each span of so long: their mean, at the time of the last one.
// The last span, which is not over, is left out.
func Thin(points []Point, width time.Duration) (out []Point) {
	cell := func(p Point) time.Time { return p.At.Truncate(width) }
	for i := 0; i < len(points); {
		mean, n, first := Point{}, 0.0, cell(points[i])
		for ; i < len(points) && cell(points[i]).Equal(first); i++ {
			mean.At, mean.Value, n = points[i].At, mean.Value+points[i].Value, n+1
		}
		if i < len(points) {
			mean.Value /= n
			out = append(out, mean)
		}
	}
	return out
}
