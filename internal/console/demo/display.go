package demo

import (
	"cmp"
	"io"
	"os"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/rs/zerolog"
	"golang.org/x/term"
)

// display shows snapshots. Its log sink may be used at any time by anybody; the
// rest belongs to one goroutine.
type display interface {
	logs() zerolog.LevelWriter

	// begin is called once, before the daemon starts: it says in words what there is to see.
	begin(intro []string)

	// open is called once before the first snapshot. close is called after the last, and by whoever
	// is about to panic: the terminal is to be given back.
	open(s *show)
	close()

	every() time.Duration
	show(snapshot)

	// finish prints what is to be said at the very end, after close.
	finish(finale)
}

// newDisplay draws in place if out is a terminal that can, and writes lines
// otherwise or when a format is asked for. Keys that stand for signals go to signals.
func newDisplay(o options, out io.Writer, signals chan<- os.Signal) display {
	f, _ := out.(*os.File)
	terminal := f != nil && term.IsTerminal(int(f.Fd()))
	color := o.color && terminal
	if o.format == formatAuto && terminal && cmp.Or(os.Getenv("TERM"), "dumb") != "dumb" {
		if tty, err := tcell.NewScreen(); err == nil {
			return newLive(out, tty, signals, color)
		}
	}
	return newLines(out, o.format == formatJSON, color)
}
