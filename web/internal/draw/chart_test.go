package draw

import (
	"encoding/xml"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/test/harness"
)

// A chart is drawn within its box, with a gap where nobody looked, and the same numbers stand in
// its table.
func TestChart(t *testing.T) {
	from := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	var points []Point
	for i := range 60 {
		if i < 20 || i >= 40 {
			points = append(points, Point{from.Add(time.Duration(i) * 10 * time.Second), float64(i % 7)})
		}
	}
	c := Chart{Title: "Jobs run", From: from, To: from.Add(10 * time.Minute), Series: []Series{{"run", points}, {"failed", points[:5]}}}
	if !c.Known() || c.Top() != 6 {
		t.Errorf("known %v, top %v", c.Known(), c.Top())
	}
	svg := string(c.SVG())
	if err := xml.Unmarshal([]byte(svg), new(struct{ XMLName xml.Name })); err != nil {
		t.Errorf("%v in %s", err, svg)
	}
	harness.Equal(t, "lines of the first series, expected one on each side of the gap", strings.Count(svg, `class="line s0"`), 2)
	for part, want := range map[string]bool{`class="line s1"`: true, "M0.0 120.0": true, "NaN": false, "style=": false, "-0.1": false} {
		if strings.Contains(svg, part) != want {
			t.Errorf("the drawing has %q: %v", part, !want)
		}
	}
	rows := c.Table()
	if len(rows) != 10 || !rows[0].At.Equal(points[39].At) || rows[0].Values[0] != points[39].Value || len(rows[0].Values) != 1 {
		t.Errorf("table: %v", rows)
	}
	bars := Chart{Bars: true, From: from, To: c.To, Series: []Series{{"a", points}}}
	harness.Equal(t, "bars", strings.Count(string(bars.SVG()), "<rect"), 40)
	if empty := (Chart{}); empty.Known() || empty.Table() != nil || empty.Top() != 1 {
		t.Error("of nothing something is known")
	}
}

func TestThin(t *testing.T) {
	from := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	var points []Point
	for i := range 25 { // 0 to 48 s, by two
		points = append(points, Point{from.Add(time.Duration(2*i) * time.Second), float64(i)})
	}
	got := Thin(points, 20*time.Second)
	if len(got) != 2 || got[0].Value != 4.5 || got[1].Value != 14.5 || !got[1].At.Equal(points[19].At) {
		t.Errorf("%v", got)
	}
}
