// Package screen shows a fleet live on a terminal. Its pages are read again from Redis; keys lead
// from page to page, and act on what a row shows.
//
//	page      pages, and what a source returns for one: tables and lines
//	redis     the source of what a Redis tells (jobs, tree)
//	layout    how a picture stands on a terminal (text)
//	screen    the loop: looks, acts and draws
//	keys      what each key does
package screen

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/gdamore/tcell/v3"
)

const (
	frameEvery = 200 * time.Millisecond
	lookTime   = 5 * time.Second
	longTime   = 30 * time.Second // of what goes through whole queues: an explanation, a filter
	slowAfter  = 2 * time.Second  // when a look that has not ended is told of
	actTime    = 15 * time.Second
)

// Options are those of a screen.
type Options struct {
	Source   Source
	Name     string // in the title
	Place    string // of the Redis, for people
	Page     Page   // the first one
	Color    bool
	ReadOnly bool          // refuse to act
	Said     string        // what there is to say at first
	Every    time.Duration // time between two looks

	// Did is told of each act that was tried, on what a row leads to, and what came of it; it returns
	// what there is to say to that. Nil for none.
	Did func(ctx context.Context, what string, on Page, said string, err error) string

	// Head and Foot are further lines above and below each page, Foot in so many lines; nil for none.
	// They are called for each frame.
	Head func() []Line
	Foot func(lines int) []Line

	// Interrupt is called for q and Ctrl-C, Suspend for Ctrl-Z. Without the one the screen ends,
	// without the other nothing happens.
	Interrupt, Suspend func()
}

// Screen is one.
type Screen struct {
	o     Options
	tty   tcell.Screen
	later chan func() // what goroutines have Run do

	view
	back   []view
	paused bool

	picture *Picture
	of      view               // what the picture is of
	due     time.Time          // when to look again; zero is at once
	began   time.Time          // of the look that is under way; zero for none
	cancel  context.CancelFunc // of it
	fault   error              // of the last look
	away    time.Time          // when the first look began that had one

	ask     *Act   // waits for a yes
	askedOn Page   // what its row leads to
	busy    string // what an act under way does
	said    string // what there is to say until the next key
	kind    string // ":" or "/" while it is typed, or ""
	typed   string

	width, height int // of the rows in the last frame
	ended         bool
}

// view is what the screen shows: a page with its filter.
type view struct {
	page        Page
	filter      string
	cursor, top int // of all rows
}

// same reports whether two views show the same rows.
func (p view) same(q view) bool { return p.page == q.page && p.filter == q.filter }

// long reports whether a look may take long.
func (p view) long() bool { return p.page.Name == "explain" || p.filter != "" }

// New makes a screen on a terminal.
func New(tty tcell.Screen, o Options) *Screen {
	s := &Screen{o: o, tty: tty, view: view{page: o.Page}, said: o.Said, later: make(chan func(), 2)} // of a look, of an act
	if o.Interrupt == nil {
		s.o.Interrupt = func() { s.ended = true }
	}
	return s
}

// Open takes the terminal.
func (s *Screen) Open() error { return s.tty.Init() }

// Run shows the screen until it is left, or ctx ends. It gives the terminal back, also when it
// panics, and panics if a source or an act has.
func (s *Screen) Run(ctx context.Context) {
	defer s.tty.Fini()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tick := time.NewTicker(frameEvery)
	defer tick.Stop()
	for !s.ended {
		s.draw()
		s.look(ctx)
		select {
		case <-ctx.Done():
			return
		case event := <-s.tty.EventQ():
			s.event(ctx, event)
		case do := <-s.later:
			do()
		case <-tick.C:
		}
	}
}

// background calls f in a goroutine with a deadline, and then has Run do what f returns, or panic.
func (s *Screen) background(ctx context.Context, limit time.Duration, f func(context.Context) func()) context.CancelFunc {
	ctx, cancel := context.WithTimeout(ctx, limit)
	go func() {
		defer cancel()
		defer func() {
			if v := recover(); v != nil {
				fault := fmt.Errorf("%v\n%s", v, debug.Stack())
				s.later <- func() { panic(fault) }
			}
		}()
		s.later <- f(ctx)
	}()
	return cancel
}

// look begins to look if it is time. There is one look at a time: while Redis hangs it waits for
// its deadline, and the screen does not.
func (s *Screen) look(ctx context.Context) {
	p, now, limit := s.view, time.Now(), lookTime
	switch {
	case !s.began.IsZero() || !s.due.IsZero() && (s.paused || now.Before(s.due)):
		return
	case p.long():
		limit = longTime
	}
	s.began, s.due = now, now.Add(s.o.Every)
	q := Query{p.page, p.filter, p.top, s.height, s.width}
	s.cancel = s.background(ctx, limit, func(ctx context.Context) func() {
		picture, err := s.o.Source.Look(ctx, q)
		return func() { s.show(p, picture, err) }
	})
}

// show takes the picture of a view. The cursor stays at its row, wherever that is now.
func (s *Screen) show(p view, picture *Picture, err error) {
	began, now := s.began, time.Now()
	s.began = time.Time{}
	switch {
	case !p.same(s.view) || errors.Is(err, context.Canceled): // somewhere else by now
		return
	case err != nil:
		if s.fault == nil {
			s.away = began
		}
		s.fault = err
		return
	case !s.due.IsZero(): // a dear look comes more rarely
		s.due = now.Add(max(s.o.Every, 4*now.Sub(began)))
	}
	old := s.row()
	s.fault, s.picture, s.of = nil, picture, p
	if old.ID != "" && s.cursor > 0 {
		if i := slices.IndexFunc(picture.Rows, func(r Row) bool { return r.ID == old.ID }); i >= 0 {
			by := i + picture.Offset - s.cursor
			s.cursor, s.top = s.cursor+by, s.top+by
		}
	}
	if s.move(0); s.top != p.top && !s.seen() {
		s.due = time.Time{}
	}
}

// total is how many rows there are.
func (s *Screen) total() int {
	if s.picture == nil {
		return 0
	}
	return max(s.picture.Total, len(s.picture.Rows))
}

// row is the one under the cursor, an empty one if there is none.
func (s *Screen) row() *Row {
	if s.picture != nil && s.of.same(s.view) {
		if i := s.cursor - s.picture.Offset; i >= 0 && i < len(s.picture.Rows) {
			return &s.picture.Rows[i]
		}
	}
	return &Row{}
}

// move moves the cursor by some rows. If they are not read yet, they are read at once.
func (s *Screen) move(by int) {
	s.cursor = max(0, min(s.cursor+by, s.total()-1))
	s.top = max(0, min(s.top, s.cursor), s.cursor-s.height+1)
	if by != 0 && !s.seen() {
		s.due = time.Time{}
	}
}

// seen reports whether the rows that are to be seen are in the picture.
func (s *Screen) seen() bool {
	p := s.picture
	return p == nil || s.top >= p.Offset && min(s.top+s.height, s.total()) <= p.Offset+len(p.Rows)
}

// visit goes to a page, unless it is the zero Page, and remembers the view before.
func (s *Screen) visit(p Page) {
	if p.Name != "" {
		s.back = append(s.back, s.view)
		s.stay(view{page: p})
	}
}

// stay goes to a view. It forgets what was shown of another page, and cancels a look there.
func (s *Screen) stay(p view) {
	s.view, s.due, s.said = p, time.Time{}, ""
	if !s.began.IsZero() {
		s.cancel()
	}
	if s.of.page != p.page {
		s.picture = nil
	}
}

// do begins an act that the user has confirmed.
func (s *Screen) do(ctx context.Context, a *Act) {
	s.busy = a.What
	on := s.askedOn
	s.background(ctx, actTime, func(ctx context.Context) func() {
		said, err := a.Do(ctx)
		switch {
		case ctx.Err() != nil && err != nil:
			said = fmt.Sprintf("no answer within %s, it may have been done or not", actTime)
		case err != nil:
			said = err.Error()
		}
		if s.o.Did != nil {
			said = strings.TrimSpace(said + " " + s.o.Did(context.WithoutCancel(ctx), a.What, on, said, err))
		}
		return func() { s.busy, s.said, s.due = "", said+": "+a.What, time.Time{} }
	})
}
