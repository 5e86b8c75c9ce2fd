package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
)

// oneOf is a flag with a few values.
type oneOf struct {
	value *string
	of    []string
}

func (f oneOf) Set(s string) error {
	if !slices.Contains(f.of, s) {
		return fmt.Errorf("expected %s", strings.Join(f.of, ", "))
	}
	*f.value = s
	return nil
}

func (f oneOf) String() string {
	if f.value == nil {
		return ""
	}
	return *f.value
}

func (oneOf) Type() string { return "WORD" }

// Table prints rows: for a terminal with a head line and in columns, else separated by tabs and
// without a head line.
type Table struct {
	w       io.Writer
	flush   func() error
	aligned bool
}

// Table begins one.
func (s *Session) Table(head ...string) *Table {
	if !s.Terminal {
		return &Table{w: s.Out, flush: func() error { return nil }}
	}
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	t := &Table{w: w, flush: w.Flush, aligned: true}
	t.Row(head...)
	return t
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
	_, _ = fmt.Fprintln(t.w, strings.Join(fields, "\t")) // Flush tells
}

// Flush prints what is left.
func (t *Table) Flush() error { return t.flush() }

// Line is a text without control characters: what others wrote cannot drive the terminal.
func Line(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, text)
}

// PrintJSON prints a value on one line.
func (s *Session) PrintJSON(v any) error {
	e := json.NewEncoder(s.Out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
