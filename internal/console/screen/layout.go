package screen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/color"

	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/words"
)

// indent is before each row, where the cursor is.
const indent = 2

// frame is the content of a terminal of that size.
func (s *Screen) frame(width, height int) (out []Line) {
	var head, foot []Line
	if s.o.Head != nil {
		head = s.o.Head()
	}
	top, bottom := s.title(), s.bottom(width)
	rest := height - len(top) - len(bottom)
	head = head[:max(0, min(len(head), rest/3))]
	if s.o.Foot != nil {
		foot = s.o.Foot(max(0, rest-14) / 3)
	}
	s.width, s.height = max(least, width-indent), max(1, rest-len(head)-len(foot))
	if s.picture != nil && s.picture.Head != nil {
		s.height = max(1, s.height-1)
	}
	out = append(append(append(out, top...), head...), s.body()...)
	out = append(out, make([]Line, max(0, height-len(out)-len(foot)-len(bottom)))...)
	return append(append(out, foot...), bottom...)
}

// title says what is shown, and what is wrong with that.
func (s *Screen) title() []Line {
	var l, trouble Line
	l.Add(Bold, s.o.Name+" "+s.page.String())
	if s.total() > 0 {
		l.Addf(Plain, "  %s/%s", words.Count(s.cursor+1), words.Count(s.total()))
		l.Add(Yellow, strings.TrimRight("  "+s.picture.Note, " "))
	}
	if s.filter != "" {
		l.Add(Yellow, "  /"+s.filter)
	}
	if s.paused {
		l.Add(Yellow, "  paused")
	}
	if s.o.ReadOnly {
		l.Add(Dim, "  read-only")
	}
	l.Add(Dim, "  "+time.Now().UTC().Format("15:04:05Z")+"  "+s.o.Place)
	var network net.Error
	refusal, refused := redisconn.Refused(s.fault)
	since := func(t time.Time, what string) {
		trouble.Addf(Red, "%s since %s (%s): ", what, t.UTC().Format("15:04:05Z"), time.Since(t).Round(time.Second))
	}
	switch slow := !s.began.IsZero() && time.Since(s.began) > slowAfter; {
	case errors.As(s.fault, &network) || errors.Is(s.fault, io.EOF) || errors.Is(s.fault, context.DeadlineExceeded):
		since(s.away, "redis is away")
		trouble.Add(Red, s.fault.Error())
	case refused:
		since(s.away, "redis refuses this")
		trouble.Add(Red, refusal.Text+": "+s.fault.Error())
	case s.fault != nil:
		since(s.away, "a fault")
		trouble.Add(Red, s.fault.Error())
	case slow && s.long():
		since(s.began, "looking")
	case slow:
		since(s.began, "redis does not answer")
	default:
		return []Line{l}
	}
	return []Line{l, trouble}
}

// bottom is the last lines: what is typed, asked or said, else the keys.
func (s *Screen) bottom(width int) []Line {
	text := s.said
	switch {
	case s.ask != nil:
		text = s.ask.What + "? y or n"
	case s.kind != "":
		text = s.kind + s.typed + "_"
	case text == "" && s.busy != "":
		text = "waiting: " + s.busy
	case text == "":
		acts := s.row().Acts
		if s.o.ReadOnly {
			acts = nil
		}
		for _, a := range acts {
			verb, _, _ := strings.Cut(a.What, " ")
			text += a.Key + " " + verb + "  "
		}
		return []Line{{{text + "? help  : page  / filter  q quit", Dim}}}
	}
	lines := wrap(Bold, text, width)
	return lines[:min(len(lines), 3)]
}

// body is the rows that are seen, below the head of their table.
func (s *Screen) body() (out []Line) {
	switch {
	case s.picture == nil && s.fault == nil:
		return []Line{{{"  looking …", Dim}}}
	case s.picture != nil && s.total() == 0:
		return []Line{{{"  nothing here", Dim}}}
	}
	s.move(0)
	if s.picture != nil && s.picture.Head != nil {
		out = append(out, append(Line{{"  ", Plain}}, s.picture.Head...))
	}
	for at := s.top; at < min(s.top+s.height, s.total()); at++ {
		l := Line{{"  ", Plain}}
		if at == s.cursor {
			l[0] = Span{"> ", Bold}
		}
		if i := at - s.picture.Offset; i >= 0 && i < len(s.picture.Rows) {
			l = append(l, s.picture.Rows[i].Line...)
		} else {
			l.Add(Dim, "…") // not here yet
		}
		for i := range l {
			if s.fault != nil || !s.of.same(s.view) {
				l[i].Style = Dim
			}
		}
		out = append(out, l)
	}
	return out
}

var colors = map[Style]tcell.Color{Red: color.Maroon, Green: color.Green, Yellow: color.Olive, Cyan: color.Teal}

// draw draws a frame; the terminal gets what has changed.
func (s *Screen) draw() {
	width, height := s.tty.Size()
	s.tty.Clear()
	for y, l := range s.frame(width, height) {
		x := 0
		for _, span := range l.Cut(width) {
			st := tcell.StyleDefault.Bold(span.Style == Bold).Dim(span.Style == Dim)
			if s.o.Color {
				st = st.Foreground(colors[span.Style])
			}
			for text, n := span.Text, 0; text != "" && x < width; x += n {
				text, n = s.tty.Put(x, y, text, st)
			}
		}
	}
	s.tty.Show()
}

// Text is one frame as lines of text, of at most so many rows. For rates it looks twice.
func Text(ctx context.Context, o Options, width, rows int) (string, error) {
	q := Query{Page: o.Page, Rows: rows, Width: width}
	p, err := o.Source.Look(ctx, q)
	if err == nil && (q.Page.Name == "overview" || q.Page.Name == "queues") {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(o.Every):
			p, err = o.Source.Look(ctx, q)
		}
	}
	if err != nil {
		return "", err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s  %s  %s\n", o.Name, o.Page, time.Now().UTC().Format(time.RFC3339), o.Place)
	if p.Head != nil {
		text.WriteString(strings.TrimRight(p.Head.String(), " ") + "\n")
	}
	for _, r := range p.Rows[:min(len(p.Rows), rows)] {
		text.WriteString(strings.TrimRight(r.String(), " ") + "\n")
	}
	return text.String(), nil
}
