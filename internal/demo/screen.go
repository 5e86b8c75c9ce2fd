package demo

import (
	"io"
	"os"
	"syscall"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/color"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/ossignal"
)

const (
	frameEvery = 200 * time.Millisecond
	// repaintEvery repairs what others have written onto the screen.
	repaintEvery = 2 * time.Second
)

// screen draws snapshots in place on a terminal.
type screen struct {
	notes
	out     io.Writer // of what is said at the end
	tty     tcell.Screen
	signals chan<- os.Signal // keys of the terminal that stand for signals
	colored bool

	opened  bool
	instead display // of a terminal that cannot be opened
	painted time.Time
}

func newScreen(out io.Writer, tty tcell.Screen, signals chan<- os.Signal, colored bool) *screen {
	return &screen{out: out, tty: tty, signals: signals, colored: colored}
}

func (s *screen) logs() zerolog.LevelWriter { return &s.notes }
func (s *screen) every() time.Duration      { return frameEvery }

func (s *screen) open() {
	if err := s.tty.Init(); err != nil {
		s.instead = newLines(s.out, false, false)
		return
	}
	s.opened = true
	go s.keys(s.tty.EventQ())
}

func (s *screen) close() {
	if s.opened {
		s.tty.Fini()
	}
}

// keys reads the keys that the terminal would make signals of, if it were not raw.
func (s *screen) keys(events <-chan tcell.Event) {
	for event := range events {
		key, ok := event.(*tcell.EventKey)
		if !ok {
			continue
		}
		signal := os.Signal(syscall.SIGINT)
		switch key.Key() {
		case tcell.KeyCtrlC:
		case tcell.KeyCtrlZ:
			signal = ossignal.Quiet
		default:
			continue
		}
		select {
		case s.signals <- signal:
		default: // so many are waiting that it does not matter
		}
	}
}

// show draws a frame; the terminal gets what has changed.
func (s *screen) show(shot snapshot) {
	if s.instead != nil {
		s.instead.show(shot)
		return
	}
	width, height := s.tty.Size()
	s.tty.Clear()
	for y, r := range view(shot, s.latest(), height) {
		x := 0
		for _, piece := range r.cut(width) {
			s.tty.PutStrStyled(x, y, piece.text, s.style(piece.style))
			x += len([]rune(piece.text))
		}
	}
	if shot.Now.Sub(s.painted) >= repaintEvery {
		s.painted = shot.Now
		s.tty.Sync()
		return
	}
	s.tty.Show()
}

// style is what the terminal calls a style.
func (s *screen) style(st style) tcell.Style {
	d := tcell.StyleDefault
	if !s.colored {
		return d
	}
	switch st {
	case bold:
		return d.Bold(true)
	case dim:
		return d.Dim(true)
	case red:
		return d.Foreground(color.Maroon)
	case green:
		return d.Foreground(color.Green)
	case yellow:
		return d.Foreground(color.Olive)
	case cyan:
		return d.Foreground(color.Teal)
	case plain:
	}
	return d
}

func (s *screen) finish(f finale) { _, _ = io.WriteString(s.out, f.text()) }
