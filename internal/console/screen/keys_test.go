package screen_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gdamore/tcell/v3"

	"github.com/troupehq/troupe/internal/console/screen"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/screentest"
)

// rows is a source of numbered rows, of which it returns those that are asked for.
type rows struct {
	looks atomic.Int64
	fail  atomic.Value // what a look does
}

func (r *rows) Look(_ context.Context, q screen.Query) (*screen.Picture, error) {
	r.looks.Add(1)
	if fail, _ := r.fail.Load().(func() error); fail != nil {
		if err := fail(); err != nil {
			return nil, err
		}
	}
	p := &screen.Picture{Offset: q.From, Total: 1000}
	if q.Page.Arg != "" {
		p = &screen.Picture{Note: "of " + q.Page.Arg}
	}
	for i := p.Offset; i < p.Total && i < q.From+q.Rows; i++ {
		row := screen.Row{ID: fmt.Sprint(i), Enter: screen.Page{Name: "queue", Arg: fmt.Sprint("q", i)}}
		row.Addf(screen.Plain, "row %d of %s /%s", i, q.Page, q.Filter)
		row.Acts = []screen.Act{{Key: "R", What: "retry all", Do: func(context.Context) (string, error) { panic("scripted") }}}
		p.Rows = append(p.Rows, row)
	}
	return p, nil
}

func TestKeys(t *testing.T) {
	source := &rows{}
	s := show(t, 60, 12, screen.Options{Source: source, Page: page("dead")})
	for _, step := range []struct{ keys, want string }{
		{"", "> row 0 of :dead"}, {"j", "> row 1 "}, {"\x1b[B", "> row 2 "}, {"k", "> row 1 "}, {"\x1b[A", "> row 0 "},
		{"\x1b[6~", "> row 10 "}, {"\x1b[5~", "> row 0 "}, {"G", "> row 999 "}, {"g", "> row 0 "}, {"\x1b[F", "> row 999 "}, {"\x1b[H", "> row 0 "},
		{"/ab", "row 0 of :dead /ab"}, {"\x7f", "row 0 of :dead /a\n"}, {"c\r", "row 0 of :dead /ac"}, {"\x1b", "row 0 of :dead /\n"},
		{"jj\r", ":queue q2"}, {"\x1b", "> row 2 of :dead"}, {":sch", ":sch_"}, {"\r", "row 0 of :scheduled"}, {"\x7f", "> row 2 of :dead"},
		{":xyz\r", `page "xyz", expected one of overview,`}, {":explain\r", "page explain without a jid"}, {":x\x1b", "? help"},
		{"?", ":help"}, {"\x1b", "> row 2 of :dead"}, {"Z", "? help"}, {"K", "K does nothing here"}, {".", "paused"}, {".", "> row 2 of :dead"},
	} {
		s.Type(step.keys)
		s.Await(step.want)
	}
	s.gone(t, "paused")
	s.Resize(70, 8)
	if !harness.Within(time.Minute, func() bool {
		text := s.Text()
		return strings.Count(text, "row ") == 6 && strings.Contains(text, "? help")
	}) {
		t.Errorf("eight lines:\n%s", s.Text())
	}
	s.Type(":q\r")
	<-s.ended
}

// A paused screen does not look, and one that looks does so every now and then.
func TestPause(t *testing.T) {
	source := &rows{}
	s := show(t, 60, 12, screen.Options{Source: source, Page: page("dead"), Every: 10 * time.Millisecond})
	s.Await("row 0")
	more := func(n int64) bool {
		from := source.looks.Load()
		return harness.Within(time.Second, func() bool { return source.looks.Load() > from+n })
	}
	if !more(1) {
		t.Error("it does not look again")
	}
	s.Type(".")
	s.Await("paused")
	if more(1) { // one may have been under way
		t.Error("it looks while it is paused")
	}
}

// finished counts how often a terminal was given back.
type finished struct {
	tcell.Screen
	n atomic.Int64
}

func (f *finished) Fini() { f.n.Add(1); f.Screen.Fini() }

// A panic gives the terminal back before it ends the program, wherever it is.
func TestPanics(t *testing.T) {
	for name, keys := range map[string]string{"of a source": "", "of an act": "Ry", "of the screen": "\x1a"} {
		t.Run(name, func(t *testing.T) {
			terminal := screentest.New(t, 60, 12)
			tty := &finished{Screen: terminal.Screen}
			source := &rows{}
			o := screen.Options{Source: source, Page: page("dead"), Every: time.Millisecond, Suspend: func() { panic("scripted") }}
			sc := screen.New(tty, o)
			harness.OK(t, sc.Open())
			ended := make(chan any)
			go func() {
				defer func() { ended <- recover() }()
				sc.Run(t.Context())
			}()
			terminal.Await("row 0")
			if terminal.Type(keys); keys == "" {
				source.fail.Store(func() error { panic("scripted") })
			}
			if text := fmt.Sprint(<-ended); !strings.Contains(text, "scripted") || tty.n.Load() != 1 {
				t.Errorf("given back %d times, %s", tty.n.Load(), text)
			}
		})
	}
}

// What is no outage is told as it is.
func TestFaults(t *testing.T) {
	source := &rows{}
	s := show(t, 80, 12, screen.Options{Source: source, Page: page("dead"), Color: true})
	s.Await("row 0")
	if s.Colored() {
		t.Error("colors, and nothing to say with them")
	}
	source.fail.Store(func() error { return errors.New("NOPERM \x1b[2Jno") })
	s.Await("a fault since ")
	s.Await(": NOPERM  [2Jno")
	if !s.Colored() {
		t.Error("no color")
	}
	source.fail.Store(func() error { return nil })
	s.gone(t, "a fault")
}

func TestWithoutColor(t *testing.T) {
	source := &rows{}
	source.fail.Store(func() error { return errors.New("boom") })
	s := show(t, 80, 12, screen.Options{Source: source, Page: page("dead")})
	s.Await("boom")
	if s.Colored() {
		t.Error("colors")
	}
}
