package demo

import (
	"context"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/console/mask"
	"github.com/troupehq/troupe/internal/console/screen"
	"github.com/troupehq/troupe/internal/osproc"
)

const (
	frameEvery = 200 * time.Millisecond
	lookEvery  = 500 * time.Millisecond
)

// live is the screen of troupe top, with the figures of the demo above each page and its notes
// below.
type live struct {
	notes
	out     io.Writer // of what is said at the end
	tty     tcell.Screen
	signals chan<- os.Signal // keys of the terminal that stand for signals
	colored bool

	shot    atomic.Pointer[snapshot]
	instead display // of a terminal that cannot be opened
	leave   func()
}

func newLive(out io.Writer, tty tcell.Screen, signals chan<- os.Signal, colored bool) *live {
	return &live{out: out, tty: tty, signals: signals, colored: colored, leave: func() {}}
}

func (l *live) logs() zerolog.LevelWriter { return &l.notes }
func (l *live) every() time.Duration      { return frameEvery }
func (l *live) begin(intro []string)      { l.add(intro) }

func (l *live) open(s *show) {
	id := s.daemon.Identity()
	sc := screen.New(l.tty, screen.Options{
		Source: &source{screen.Redis{Fleet: fleet.New(s.store.client, mask.New(mask.Mask, nil, nil))}, id, &l.shot},
		Name:   "troupe demo", Place: s.store.place(), Page: screen.Page{Name: "tree", Arg: id}, Color: l.colored, Every: lookEvery,
		Head: l.head, Foot: l.foot,
		Interrupt: func() { l.signal(syscall.SIGINT) }, Suspend: func() { l.signal(osproc.Quiet) },
	})
	if err := sc.Open(); err != nil {
		l.instead = newLines(l.out, false, false)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { sc.Run(ctx) })
	l.leave = func() { cancel(); run.Wait() }
}

func (l *live) close() { l.leave() }

// signal stands for a signal that the terminal would send, if it were not raw.
func (l *live) signal(s os.Signal) {
	select {
	case l.signals <- s:
	default: // so many are waiting that it does not matter
	}
}

func (l *live) show(s snapshot) {
	if l.instead != nil {
		l.instead.show(s)
		return
	}
	l.shot.Store(&s)
}

func (l *live) head() []screen.Line {
	s := l.shot.Load()
	if s == nil {
		return nil
	}
	return head(*s)
}

func (l *live) foot(most int) []screen.Line {
	lines := make([]screen.Line, min(most, maxNoteRows)) // always so many, so that one note more moves nothing
	all := l.latest()
	for i, n := range all[max(0, len(all)-len(lines)):] {
		lines[i] = n.line()
	}
	return lines
}

func (l *live) finish(f finale) { _, _ = io.WriteString(l.out, f.text()) }

// source shows the tree of this process as it is now, and all else as Redis tells it.
type source struct {
	screen.Redis
	identity string
	shot     *atomic.Pointer[snapshot]
}

// Look looks at a page.
func (s *source) Look(ctx context.Context, q screen.Query) (*screen.Picture, error) {
	shot := s.shot.Load()
	if q.Page.Name != "tree" || q.Page.Arg != "" && q.Page.Arg != s.identity || shot == nil {
		return s.Redis.Look(ctx, q)
	}
	var head screen.Row
	head.Addf(screen.Bold, "%s: this process", s.identity)
	return q.TreePicture(head, shot.Tree), nil
}
