package demo

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/gdamore/tcell/v3"

	"github.com/troupehq/troupe/internal/osproc"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/screentest"
)

// The demo is what troupe top is, with its figures above and its notes below.
func TestLiveShowsARun(t *testing.T) {
	for _, size := range []struct{ width, height int }{{40, 12}, {80, 24}, {120, 40}} {
		tm := screentest.New(t, size.width, size.height)
		var out harness.Buffer
		signals := make(chan os.Signal, 3)
		o := quickly()
		o.rate = 200
		s := harness.Must(newShow(o, newLive(&out, tm.Screen, signals, true)))(t)
		r := runShow(t, s)
		if size.height >= 40 { // there is room for the notes
			tm.Await("Every 5 s a job panics")
		}
		tm.Await("busy Demo")
		text := tm.Await("running")
		if !strings.HasPrefix(text, "troupe demo :tree ") || !strings.Contains(text, "launcher") || !strings.Contains(text, "pushed ") {
			t.Errorf("the first page:\n%s", text)
		}
		if size.height > 20 {
			tm.Await("job failed") // a note
		}
		tm.Type(":processes\r")
		tm.Await("> " + s.daemon.Identity()[:10])
		tm.Type(":retry\r")
		tm.Await("Demo::")
		tm.Type(":tree\r")
		tm.Await("this process")
		tm.Type("\x1a")
		harness.Equal(t, "Ctrl-Z is", <-signals, os.Signal(osproc.Quiet))
		r.signals <- osproc.Quiet
		tm.Await("quiet: running jobs end")
		tm.Type("q\x03")
		harness.EqualList(t, "q and Ctrl-C are", []os.Signal{<-signals, <-signals}, []os.Signal{os.Interrupt, os.Interrupt})
		r.signals <- os.Interrupt
		harness.OK(t, r.end(t))
		if after := out.String(); !strings.Contains(after, "stopped in") || strings.Contains(after, "\x1b") {
			t.Errorf("the report: %q", after)
		}
	}
}

// closed is a terminal that cannot be opened, or notes when it is given back.
type closed struct {
	tcell.Screen
	fault error
	fini  chan struct{}
}

func (c *closed) Init() error {
	if c.fault != nil {
		return c.fault
	}
	return c.Screen.Init()
}

func (c *closed) Fini() { c.Screen.Fini(); close(c.fini) }

// A terminal that cannot be opened gets lines.
func TestNoTerminal(t *testing.T) {
	var out harness.Buffer
	s := harness.Must(newShow(quickly(), newLive(&out, &closed{fault: errors.New("no terminal")}, nil, true)))(t)
	r := runShow(t, s)
	harness.Await(t, "a line", func() bool { return strings.Contains(out.String(), "demo phase=running") })
	r.signals <- os.Interrupt
	harness.OK(t, r.end(t))
}

// A panic anywhere in the demo gives the terminal back before it ends the program.
func TestPanicsGiveTheTerminalBack(t *testing.T) {
	tty := &closed{Screen: screentest.New(t, 80, 24).Screen, fini: make(chan struct{})}
	s := harness.Must(newShow(quickly(), newLive(new(harness.Buffer), tty, nil, true)))(t)
	defer s.store.close()
	s.display.open(s)
	func() {
		defer func() {
			harness.Equal(t, "recovered", recover(), "scripted")
		}()
		s.guard(func() { panic("scripted") })
	}()
	<-tty.fini
}
