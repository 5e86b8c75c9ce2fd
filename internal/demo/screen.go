package demo

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

const (
	frameEvery = 200 * time.Millisecond
	// repaintEvery heals what others have written onto the screen, keys typed by
	// the user among them.
	repaintEvery = 2 * time.Second
)

// Escape sequences: the alternate screen, the cursor, wrapping of long lines,
// and the marks between which a terminal shows nothing half done (those that do
// not know them ignore them). The cursor rests on the first line, where keys echo.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[H\x1b[2J"
	leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	beginFrame  = "\x1b[?2026h"
	endFrame    = "\x1b[?2026l\x1b[H"
)

// screen draws snapshots in place on a terminal.
type screen struct {
	notes
	out   io.Writer
	size  func() (width, height int, err error)
	color bool

	width, height int
	painted       []string // the lines that stand on the screen
	repainted     time.Time
}

func newScreen(out io.Writer, size func() (int, int, error), color bool) *screen {
	return &screen{out: out, size: size, color: color}
}

func (s *screen) logs() zerolog.LevelWriter { return &s.notes }
func (s *screen) every() time.Duration      { return frameEvery }
func (s *screen) open()                     { _, _ = io.WriteString(s.out, enterScreen) }
func (s *screen) close()                    { _, _ = io.WriteString(s.out, leaveScreen) }

// show draws a frame in one write, and of it only the lines that changed.
func (s *screen) show(shot snapshot) {
	width, height, err := s.size()
	if err != nil || width <= 0 || height <= 0 {
		width, height = 80, 24
	}
	var b strings.Builder
	b.WriteString(beginFrame)
	if width != s.width || height != s.height || shot.Now.Sub(s.repainted) >= repaintEvery {
		if width != s.width || height != s.height {
			b.WriteString("\x1b[2J")
		}
		s.width, s.height, s.painted, s.repainted = width, height, nil, shot.Now
	}
	rows := view(shot, s.latest(), height)
	lines := make([]string, len(rows))
	for i, r := range rows {
		lines[i] = r.draw(width, s.color)
		if i == 0 || i >= len(s.painted) || s.painted[i] != lines[i] {
			fmt.Fprintf(&b, "\x1b[%d;1H%s\x1b[K", i+1, lines[i])
		}
	}
	if len(lines) < height && (s.painted == nil || len(lines) < len(s.painted)) {
		fmt.Fprintf(&b, "\x1b[%d;1H\x1b[J", len(lines)+1)
	}
	b.WriteString(endFrame)
	s.painted = slices.Clip(lines)
	_, _ = io.WriteString(s.out, b.String())
}

func (s *screen) finish(f finale) { _, _ = io.WriteString(s.out, f.text()) }
