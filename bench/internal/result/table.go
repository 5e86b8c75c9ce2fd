package result

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Reference is the contender that the others are compared with.
const Reference = "troupe"

// Grid returns a scenario as a table: a header and the rows, as text. Columns
// without a sample are left out. The last column compares Reference with the
// row: its rate over the row's, or where there is no rate its p50 over the row's.
func (s *Set) Grid(scenario string) [][]string {
	rows := s.Of(scenario)
	var columns []Metric
	for _, m := range Metrics {
		for _, r := range rows {
			if r.Has(m) {
				columns = append(columns, m)
				break
			}
		}
	}
	head := []string{"case", "contender", "jobs"}
	for _, m := range columns {
		head = append(head, m.Title)
	}
	grid := [][]string{append(head, Reference+"/this")}
	for _, r := range rows {
		line := []string{r.Case, r.Contender, Count(r.Jobs)}
		for _, m := range columns {
			cell := ""
			if r.Has(m) {
				cell = Format(r.Median(m))
			}
			line = append(line, cell)
		}
		grid = append(grid, append(line, s.compared(r)))
	}
	return grid
}

func (s *Set) compared(r *Row) string {
	ref := s.Find(r.Scenario, r.Case, Reference)
	if ref == r {
		return ""
	}
	for _, m := range []Metric{Rate, P50} {
		if v := Ratio(ref, r, m); v > 0 {
			return Format(v) + "×"
		}
	}
	return ""
}

// WriteText prints everything: the machine, each scenario, the targets.
func (s *Set) WriteText(w io.Writer) {
	_, _ = fmt.Fprintln(w, s.Machine)
	for _, name := range s.Scenarios() {
		_, _ = fmt.Fprintf(w, "\n%s\n", strings.ToUpper(name))
		writeGrid(w, s.Grid(name))
	}
	if targets := s.Targets(); len(targets) > 0 {
		_, _ = fmt.Fprintln(w, "\nTARGETS (medians; ratios round by round)")
		writeGrid(w, TargetGrid(targets))
	}
	for _, left := range s.Left {
		_, _ = fmt.Fprintln(w, "left out:", left)
	}
}

// writeGrid aligns columns: text to the left, numbers to the right.
func writeGrid(w io.Writer, grid [][]string) {
	widths := make([]int, len(grid[0]))
	for _, line := range grid {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, line := range grid {
		var b strings.Builder
		for i, cell := range line {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if numeric(grid, i) {
				b.WriteString(pad + cell + "  ")
			} else {
				b.WriteString(cell + pad + "  ")
			}
		}
		_, _ = fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}

func numeric(grid [][]string, column int) bool {
	for _, line := range grid[1:] {
		if strings.Trim(line[column], "-0123456789.,e×") != "" {
			return false
		}
	}
	return len(grid) > 1
}

// Markdown writes a grid as a table.
func Markdown(w io.Writer, grid [][]string) {
	for i, line := range grid {
		_, _ = fmt.Fprintf(w, "| %s |\n", strings.Join(line, " | "))
		if i == 0 {
			rule := make([]string, len(line))
			for k := range rule {
				rule[k] = "---"
				if numeric(grid, k) {
					rule[k] = "---:"
				}
			}
			_, _ = fmt.Fprintf(w, "| %s |\n", strings.Join(rule, " | "))
		}
	}
}
