package demo

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/vt"

	"github.com/troupehq/troupe/internal/ossignal"
)

// terminal is an emulated one.
type terminal struct {
	vt.MockTerm
	width, height int
	screen        tcell.Screen
}

func newTerminal(t *testing.T, width, height int) *terminal {
	t.Helper()
	t.Setenv("LC_ALL", "C.UTF-8")
	mock := vt.NewMockTerm(vt.MockOptSize{X: vt.Col(width), Y: vt.Row(height)})
	screen, err := tcell.NewTerminfoScreenFromTty(mock)
	if err != nil {
		t.Fatal(err)
	}
	return &terminal{mock, width, height, screen}
}

// text is what stands on it.
func (tm *terminal) text() string {
	var b strings.Builder
	for y := range tm.height {
		var line strings.Builder
		for x := range tm.width {
			c := tm.GetCell(vt.Coord{X: vt.Col(x), Y: vt.Row(y)}).C
			if c == "" {
				c = " "
			}
			line.WriteString(c)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func TestScreenShowsTheView(t *testing.T) {
	tm := newTerminal(t, 100, 40)
	s := newScreen(new(buffer), tm.screen, nil, true)
	s.open()
	defer s.close()
	shot := picture(5)
	for range 3 {
		s.show(shot)
		want := strings.TrimRight(text(view(shot, nil, 40), 100), "\n") + "\n"
		await(t, "the frame is there", func() bool { return tm.text() == want })
		shot.Pushed++
		shot.Tree = shot.Tree[:len(shot.Tree)-1] // shorter than the one before
		shot.Now = shot.Now.Add(repaintEvery)
	}
}

func TestKeysOfTheScreenAreSignals(t *testing.T) {
	tm := newTerminal(t, 80, 24)
	signals := make(chan os.Signal, 3)
	s := newScreen(new(buffer), tm.screen, signals, true)
	s.open()
	defer s.close()
	tm.SendRaw([]byte("x\x1a\x03"))
	got := []os.Signal{<-signals, <-signals}
	if want := []os.Signal{ossignal.Quiet, os.Interrupt}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestScreenShowsARun(t *testing.T) {
	tm := newTerminal(t, 120, 40)
	var out buffer
	s, err := newShow(quickly(), newScreen(&out, tm.screen, nil, true))
	if err != nil {
		t.Fatal(err)
	}
	r := runShow(t, s)
	await(t, "the unresponsive job is on the screen", func() bool { return strings.Contains(tm.text(), "Demo::Unresponsive") })
	close(r.signals) // reads as a signal
	if err := r.end(t); err != nil {
		t.Fatal(err)
	}
	if after := out.String(); !strings.Contains(after, "stopped in") || strings.Contains(after, "\x1b") {
		t.Errorf("the report: %q", after)
	}
}
