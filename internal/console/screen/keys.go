package screen

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/gdamore/tcell/v3"
)

// event handles an event of the terminal, such as a key.
func (s *Screen) event(ctx context.Context, event tcell.Event) {
	switch e := event.(type) {
	case *tcell.EventResize:
		s.tty.Sync()
		s.due = time.Time{} // the rows are to be as wide
	case *tcell.EventKey:
		if e.Key() == tcell.KeyRune {
			s.key(ctx, e.Str(), e.Str())
		} else {
			s.key(ctx, e.Name(), "")
		}
	case nil: // the terminal is gone
		s.ended = true
	}
}

// key does what the key of a name is for; text is what it writes.
func (s *Screen) key(ctx context.Context, name, text string) {
	switch {
	case name == "Ctrl+C":
		s.o.Interrupt()
	case name == "Ctrl+Z" && s.o.Suspend != nil:
		s.o.Suspend()
	case name == "Ctrl+L":
		s.tty.Sync()
	case s.ask != nil && name == "y":
		s.do(ctx, s.ask)
		s.ask = nil
	case s.ask != nil:
		s.ask, s.said = nil, "nothing was done"
	case s.kind != "":
		s.enter(name, text)
	default:
		s.said = ""
		s.command(name)
	}
}

// enter edits a page or a filter. The filter holds at once.
func (s *Screen) enter(name, text string) {
	kind := s.kind
	switch name {
	case "Esc":
		s.kind, s.typed = "", ""
	case "Enter":
		s.kind = ""
	case "Ctrl+U":
		s.typed = ""
	case "Backspace":
		_, n := utf8.DecodeLastRuneInString(s.typed)
		s.typed = s.typed[:len(s.typed)-n]
	default:
		s.typed += text
	}
	switch page, err := ParsePage(s.typed); {
	case kind == "/":
		s.stay(view{page: s.page, filter: s.typed})
	case s.kind != "" || s.typed == "":
	case s.typed == "q":
		s.o.Interrupt()
	case err != nil:
		s.said = err.Error()
	default:
		s.visit(page)
	}
}

// command is a key while nothing is typed and nothing asked.
func (s *Screen) command(name string) {
	switch name {
	case "k", "Up":
		s.move(-1)
	case "j", "Down":
		s.move(1)
	case "PgUp":
		s.move(-s.height)
	case "PgDn":
		s.move(s.height)
	case "g", "Home":
		s.move(-s.total())
	case "G", "End":
		s.move(s.total())
	case "Enter":
		s.visit(s.row().Enter)
	case "Esc", "Backspace":
		if n := len(s.back) - 1; s.filter != "" {
			s.stay(view{page: s.page})
		} else if n >= 0 {
			s.stay(s.back[n])
			s.back = s.back[:n]
		}
	case ":", "/":
		s.kind, s.typed = name, ""
	case ".":
		s.paused = !s.paused
	case "?":
		s.visit(Page{Name: "help"})
	case "q":
		s.o.Interrupt()
	case "R", "K", "D", "C", "P", "Q", "S":
		s.capital(name)
	}
}

// capital handles a capital letter: it asks whether to act on the row under the cursor.
func (s *Screen) capital(key string) {
	acts := s.row().Acts
	i := slices.IndexFunc(acts, func(a Act) bool { return a.Key == key })
	switch {
	case s.busy != "":
		s.said = "wait: " + s.busy
	case !s.seen():
		s.said = "this row is not read yet"
	case i < 0:
		s.said = fmt.Sprintf("%s does nothing here", key)
	case s.o.ReadOnly:
		s.said = cmp.Or(s.o.Said, "refused by --read-only") + ": " + acts[i].What
	default:
		s.ask, s.askedOn = &acts[i], s.row().Enter
	}
}
