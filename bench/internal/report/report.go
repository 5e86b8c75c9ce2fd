// Package report turns the results of a run into a page with tables and plots.
package report

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/troupehq/troupe/bench/internal/result"
)

// The part of the page between these lines is written by this package; the rest
// is by hand and stays.
const (
	begin = "<!-- measured: written by bench report -->"
	end   = "<!-- end of measured -->"
)

// page is the beginning of a page that does not exist yet.
//
//go:embed page.md
var page string

// Write writes the plots of set into the directory plots, and its tables into
// the page at path, which it makes if there is none.
func Write(set *result.Set, path, plots string) error {
	if err := os.MkdirAll(plots, 0o755); err != nil {
		return err
	}
	drawn, err := drawAll(set, plots)
	if err != nil {
		return err
	}
	old, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		old, err = []byte(page), os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err != nil {
		return err
	}
	to, err := filepath.Rel(filepath.Dir(path), plots)
	if err != nil {
		return err
	}
	text, err := splice(old, measured(set, drawn, filepath.ToSlash(to)))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, text, 0o644)
}

// splice puts text between the two lines.
func splice(old, text []byte) ([]byte, error) {
	before, rest, ok := bytes.Cut(old, []byte(begin+"\n"))
	_, after, closed := bytes.Cut(rest, []byte(end+"\n"))
	if !ok || !closed {
		return nil, fmt.Errorf("the lines %q and %q are not both there", begin, end)
	}
	return slices.Concat(before, []byte(begin+"\n"), text, []byte(end+"\n"), after), nil
}

// headings say what a scenario asks.
var headings = map[string]string{
	result.Drain:       "Drain: 25 processors, one queue",
	result.Concurrency: "Concurrency and queues",
	result.Cost:        "Commands and allocations, counted",
	result.Latency:     "Push to start",
	result.Idle:        "Idle",
	result.Mixed:       "Short jobs among long ones: how long the short ones wait",
	result.Limits:      "Jobs under a limit that is reached",
	result.FanOut:      "Jobs that push others",
	result.Slow:        "Slow networks",
	result.Failures:    "Failures",
	result.Schedule:    "Due jobs",
	result.Late:        "Scheduled jobs: how late they start",
	result.Enqueue:     "Enqueue",
	result.Scale:       "Processes on one Redis",
	result.Memory:      "Memory",
}

// measured is all that is written between the lines.
func measured(set *result.Set, drawn []plot, to string) []byte {
	var b bytes.Buffer
	m := set.Machine
	fmt.Fprintf(&b, "\n%s, %d cores of %s, %s; load before the run %s.\n%s.\n", m.Date, m.Cores, m.CPU, m.Kernel, m.Load, strings.Join(m.Versions, ", "))
	fmt.Fprintf(&b, "\n### Targets\n\n")
	result.Markdown(&b, result.TargetGrid(set.Targets()))
	for _, name := range set.Scenarios() {
		fmt.Fprintf(&b, "\n### %s\n\n", headings[name])
		for _, p := range drawn {
			if p.scenario == name {
				fmt.Fprintf(&b, "![%s](%s/%s)\n\n", p.title, to, p.file)
			}
		}
		result.Markdown(&b, set.Grid(name))
	}
	fmt.Fprintf(&b, "\n### Contenders and columns\n\n")
	grid := [][]string{{"contender", "set up as"}}
	for _, name := range sorted(set.About) {
		grid = append(grid, []string{name, set.About[name]})
	}
	result.Markdown(&b, grid)
	b.WriteByte('\n')
	grid = [][]string{{"column", "meaning"}}
	for _, metric := range result.Metrics {
		grid = append(grid, []string{metric.Title, metric.Help})
	}
	result.Markdown(&b, grid)
	for _, left := range set.Left {
		fmt.Fprintf(&b, "\nLeft out: %s.\n", left)
	}
	b.WriteByte('\n')
	return b.Bytes()
}

func sorted(m map[string]string) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
