package screen

import (
	"fmt"
	"strings"

	"github.com/clipperhouse/displaywidth"

	"github.com/troupehq/troupe/internal/console/cli"
)

// Style is how a text looks. No style says anything that the words do not say.
type Style int

// The styles.
const (
	Plain Style = iota
	Bold
	Dim
	Red
	Green
	Yellow
	Cyan
)

// Span is a piece of a line in one style.
type Span struct {
	Text  string
	Style Style
}

// Line is one line of the screen, or the cells of a row of a table.
type Line []Span

// Add appends text, cleaned of what could drive the terminal.
func (l *Line) Add(st Style, text string) { *l = append(*l, Span{cli.Line(text), st}) }

// Addf appends a formatted text likewise.
func (l *Line) Addf(st Style, format string, args ...any) { l.Add(st, fmt.Sprintf(format, args...)) }

// String is the text of the line.
func (l Line) String() (text string) {
	for _, s := range l {
		text += s.Text
	}
	return text
}

// Cut is the line in at most width columns.
func (l Line) Cut(width int) (out Line) {
	if displaywidth.String(l.String()) <= width {
		return l
	}
	left := width - 1 // for the ellipsis
	for _, s := range l {
		text := displaywidth.TruncateString(s.Text, max(left, 0), "")
		out = append(out, Span{text, s.Style})
		if left -= displaywidth.String(text); text != s.Text {
			break
		}
	}
	return append(out, Span{"…", Plain})
}

// wrap breaks a text into lines, between words where that is possible.
func wrap(st Style, text string, width int) (all []Line) {
	for text = cli.Line(text); ; {
		line := displaywidth.TruncateString(text, max(width, 2), "")
		if space := strings.LastIndexByte(line, ' '); line != text && space > 0 {
			line = line[:space+1]
		}
		if all = append(all, Line{{line, st}}); line == text {
			return all
		}
		text = text[len(line):]
	}
}

// Spark draws values as bars of eight heights, the highest value being the
// highest bar; only the last n values.
func Spark(values []float64, n int) (bars string) {
	values = values[max(0, len(values)-n):]
	top := 0.0
	for _, v := range values {
		top = max(top, v)
	}
	for _, v := range values {
		bars += string([]rune("▁▂▃▄▅▆▇█")[int(v/max(top, 1e-9)*7)])
	}
	return bars
}
