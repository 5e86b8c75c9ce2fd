// Package screentest has an emulated terminal for tests.
package screentest

import (
	"strings"
	"testing"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/vt"

	"github.com/troupehq/troupe/internal/test/harness"
)

// Terminal is an emulated one.
type Terminal struct {
	vt.MockTerm
	Screen        tcell.Screen
	tb            testing.TB
	width, height int
}

// New makes one of a size.
func New(tb testing.TB, width, height int) *Terminal {
	tb.Helper()
	if t, ok := tb.(interface{ Setenv(key, value string) }); ok {
		t.Setenv("LC_ALL", "C.UTF-8")
	}
	mock := vt.NewMockTerm(vt.MockOptSize{X: vt.Col(width), Y: vt.Row(height)})
	screen, err := tcell.NewTerminfoScreenFromTty(mock)
	if err != nil {
		tb.Fatal(err)
	}
	return &Terminal{mock, screen, tb, width, height}
}

// Text is what stands on it, without what is blank on the right and at the end.
func (t *Terminal) Text() string {
	var b strings.Builder
	for y := range t.height {
		var line strings.Builder
		for x := 0; x < t.width; x++ {
			c := t.cell(x, y)
			if c.C == "" {
				c.C = " "
			}
			line.WriteString(c.C)
			if c.W > 1 {
				x += int(c.W) - 1
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func (t *Terminal) cell(x, y int) vt.Cell { return t.GetCell(vt.Coord{X: vt.Col(x), Y: vt.Row(y)}) }

// Colored reports whether anything on it has another color than its last cell.
func (t *Terminal) Colored() bool {
	for y := range t.height {
		for x := range t.width {
			if t.cell(x, y).S.Fg() != t.cell(t.width-1, t.height-1).S.Fg() {
				return true
			}
		}
	}
	return false
}

// Resize gives it another size.
func (t *Terminal) Resize(width, height int) {
	t.width, t.height = width, height
	t.SetSize(vt.Coord{X: vt.Col(width), Y: vt.Row(height)})
}

// Type types keys. After an escape at the end it waits until that cannot begin the code of a key.
func (t *Terminal) Type(keys string) {
	if t.SendRaw([]byte(keys)); strings.HasSuffix(keys, "\x1b") {
		time.Sleep(200 * time.Millisecond)
	}
}

// Await waits until the terminal shows a text, a minute at most, and returns all that it shows.
func (t *Terminal) Await(text string) string {
	t.tb.Helper()
	if !harness.Within(time.Minute, func() bool { return strings.Contains(t.Text(), text) }) {
		t.tb.Fatalf("not within a minute: %q in\n%s", text, t.Text())
	}
	return t.Text()
}
