package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"text/tabwriter"
	"unicode"
)

// Table prints rows: for a terminal with a head line and in columns, else separated by tabs and
// without a head line.
type Table struct {
	w       io.Writer
	flush   func() error
	aligned bool
	rows    int
	err     error // the first one of a row
}

// block is how many rows are aligned with each other: they are held in memory.
const block = 1000

// Table begins a table.
func (s *Session) Table(head ...string) *Table {
	if !s.Terminal {
		return &Table{w: s.Out, flush: func() error { return nil }}
	}
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	t := &Table{w: w, flush: w.Flush, aligned: true}
	if len(head) > 0 {
		t.Row(head...)
	}
	return t
}

// Rows prints rows: as JSON, one a line, or as a table with the cells of each. The head is words
// with spaces between. If there is none, the sentence none says so beside the output.
func Rows[T any](s *Session, head, none string, rows []T, cells func(T) []string) error {
	if len(rows) == 0 {
		s.Note("%s", none)
		return nil
	}
	if s.JSON {
		for _, row := range rows {
			if err := s.PrintJSON(row); err != nil {
				return err
			}
		}
		return nil
	}
	t := s.Table(strings.Fields(head)...)
	for _, row := range rows {
		t.Row(cells(row)...)
	}
	return t.Flush()
}

// Note says something beside the output, to people.
func (s *Session) Note(format string, args ...any) {
	_, _ = fmt.Fprintln(s.Err, "troupe: "+Line(fmt.Sprintf(format, args...)))
}

// Row prints a row. What would break it is replaced by spaces.
func (t *Table) Row(fields ...string) {
	for i, f := range fields {
		if f == "" && t.aligned {
			fields[i] = "-"
			continue
		}
		fields[i] = Line(f)
	}
	_, err := fmt.Fprintln(t.w, strings.Join(fields, "\t"))
	if t.rows++; err == nil && t.rows%block == 0 {
		err = t.flush()
	}
	t.err = cmp.Or(t.err, err) // Flush tells
}

// Flush prints what is left, and returns the first error of all rows.
func (t *Table) Flush() error {
	t.err = cmp.Or(t.err, t.flush())
	return t.err
}

// Line is a text without control characters: what others wrote cannot drive the terminal.
func Line(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, text)
}

// driving are the characters that Line takes away and JSON does not escape.
var driving = regexp.MustCompile(`[\x7f-\x{9f}\x{61c}\x{200e}\x{200f}\x{2028}\x{2029}\x{202a}-\x{202e}\x{2066}-\x{2069}]`)

// PrintJSON prints a value on one line. Control characters of terminals are escaped.
func (s *Session) PrintJSON(v any) error {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(s.Out, driving.ReplaceAllStringFunc(b.String(), func(c string) string { return fmt.Sprintf(`\u%04x`, []rune(c)[0]) }))
	return err
}
