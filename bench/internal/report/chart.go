package report

import (
	"bytes"
	"image/color"
	"math"
	"os"

	gonum "gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/troupehq/troupe/bench/internal/result"
)

// chart is what a plot shows: a value for each series in each group.
type chart struct {
	title, y string
	groups   []string
	series   []series
	lines    bool // over the groups, on a logarithmic axis; else bars
	stacked  bool // bars of one group upon each other, else side by side
}

type series struct {
	name   string
	values []float64 // one per group; 0 is none
}

// palette can be told apart by the colour-blind (Okabe and Ito).
var palette = []color.Color{
	color.RGBA{0x00, 0x72, 0xb2, 0xff}, color.RGBA{0xe6, 0x9f, 0x00, 0xff}, color.RGBA{0x00, 0x9e, 0x73, 0xff},
	color.RGBA{0xcc, 0x79, 0xa7, 0xff}, color.RGBA{0x56, 0xb4, 0xe9, 0xff}, color.RGBA{0xd5, 0x5e, 0x00, 0xff},
}

const (
	chartWidth  = 20 * vg.Centimeter
	chartHeight = 10 * vg.Centimeter
	groupWidth  = 12 * vg.Centimeter // of all bars together
)

// sans is the font that widths are computed with; who has not got it has one
// that is as wide.
var sans = font.Font{Typeface: "Liberation", Variant: "Sans"}

// save draws the chart as SVG.
func (c *chart) save(path string) error {
	gonum.DefaultFont, plotter.DefaultFont = sans, sans
	p := gonum.New()
	p.Title.Text = c.title
	p.Y.Label.Text = c.y
	p.NominalX(c.groups...)
	p.Add(plotter.NewGrid())
	p.Legend.Top = true
	p.Legend.Left = c.stacked // there the first bars are the lowest
	p.Legend.Padding = vg.Points(2)
	if !p.Legend.Left {
		p.Legend.XOffs = -vg.Points(8)
	}
	p.Title.Padding = vg.Points(6)
	add := c.addBars
	if c.lines {
		add = c.addLines
	}
	if err := add(p); err != nil {
		return err
	}
	p.Y.Min, p.Y.Max = c.span()
	if c.lines {
		p.Y.Scale = gonum.LogScale{}
		p.Y.Tick.Marker = gonum.TickerFunc(ticks)
	}
	p.X.Min, p.X.Max = -0.6, float64(len(c.groups))-0.4
	w, err := p.WriterTo(chartWidth, chartHeight, "svg")
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		return err
	}
	text := bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;"))
	return os.WriteFile(path, text, 0o644)
}

// span is the range of the axis, with room above for the legend. A linear axis begins at 0;
// a logarithmic one begins and ends at powers of ten.
func (c *chart) span() (low, high float64) {
	low = math.Inf(1)
	for g := range c.groups {
		sum := 0.0
		for _, s := range c.series {
			if v := s.values[g]; v > 0 {
				low, high, sum = min(low, v), max(high, v), sum+v
			}
		}
		if c.stacked {
			high = max(high, sum)
		}
	}
	if !c.lines {
		return 0, high * 1.15
	}
	low = math.Pow(10, math.Floor(math.Log10(low)))
	return low, max(high*3, low*10)
}

// ticks marks 1, 2 and 5 of each power of ten.
func ticks(low, high float64) (marks []gonum.Tick) {
	for power := math.Pow(10, math.Floor(math.Log10(low))); power <= high; power *= 10 {
		for _, n := range []float64{1, 2, 5} {
			if v := n * power; v >= low && v <= high {
				marks = append(marks, gonum.Tick{Value: v, Label: result.Format(v)})
			}
		}
	}
	return marks
}

func (c *chart) addLines(p *gonum.Plot) error {
	for i, s := range c.series {
		var points plotter.XYs
		for g, v := range s.values {
			if v > 0 {
				points = append(points, plotter.XY{X: float64(g), Y: v})
			}
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return err
		}
		line.Color, line.Width = palette[i%len(palette)], vg.Points(2)
		dots.Color, dots.Shape, dots.Radius = line.Color, draw.CircleGlyph{}, vg.Points(3)
		p.Add(line, dots)
		p.Legend.Add(s.name, line, dots)
	}
	return nil
}

func (c *chart) addBars(p *gonum.Plot) error {
	n := len(c.series)
	width := groupWidth / vg.Length(len(c.groups))
	if !c.stacked {
		width /= vg.Length(n)
	}
	var below *plotter.BarChart
	var tops plotter.XYLabels
	for i, s := range c.series {
		bars, err := plotter.NewBarChart(plotter.Values(s.values), width)
		if err != nil {
			return err
		}
		bars.Color, bars.LineStyle.Width = palette[i%len(palette)], 0
		if c.stacked && below != nil {
			bars.StackOn(below)
		}
		if !c.stacked {
			bars.Offset = width * (vg.Length(i) - vg.Length(n-1)/2)
		}
		p.Add(bars)
		p.Legend.Add(s.name, bars)
		below = bars
	}
	if !c.stacked {
		return nil
	}
	for g := range c.groups { // what the bars add up to, above them
		sum := 0.0
		for _, s := range c.series {
			sum += s.values[g]
		}
		tops.XYs = append(tops.XYs, plotter.XY{X: float64(g), Y: sum})
		tops.Labels = append(tops.Labels, result.Format(sum))
	}
	labels, err := plotter.NewLabels(tops)
	if err != nil {
		return err
	}
	labels.Offset = vg.Point{X: -vg.Points(10), Y: vg.Points(3)}
	p.Add(labels)
	return nil
}
