package report_test

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupehq/troupe/bench/internal/report"
	"github.com/troupehq/troupe/bench/internal/result"
)

func sample() *result.Set {
	s := &result.Set{About: map[string]string{"troupe": "as it is"}, Left: []string{"river: not there"}}
	for _, name := range []string{"troupe", "brpop"} {
		for i, kase := range []string{"5 processors", "25 processors", "25, three queues"} {
			s.Row(result.Concurrency, kase, name, 10).Add(result.Rate, float64(1000*(i+1)))
		}
		drain := s.Row(result.Drain, "25 processors", name, 10)
		drain.Add(result.Rate, 5000)
		drain.Add(result.WorkerUS, 3)
		drain.Add(result.StoreUS, 2)
		for _, kase := range []string{"1 process", "8 processes"} {
			s.Row(result.Latency, kase, name, 10).Add(result.P50, 120)
			s.Row(result.Latency, kase, name, 10).Add(result.P99, 900)
		}
	}
	return s
}

// What people have written around the figures stays, and a second run leaves no
// trace of the first.
func TestWriteReplacesItsOwnPartOnly(t *testing.T) {
	dir := t.TempDir()
	page, plots := filepath.Join(dir, "docs", "performance.md"), filepath.Join(dir, "docs", "plots")
	if err := report.Write(sample(), page, plots); err != nil {
		t.Fatal(err)
	}
	first := read(t, page)
	for _, want := range []string{
		"| 25 processors | troupe | 10 | 5,000 |", "(plots/throughput.svg)", "(plots/cost.svg)", "(plots/latency.svg)",
		"Left out: river: not there.", "| troupe | as it is |",
	} {
		if !strings.Contains(first, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(first, "scale.svg") {
		t.Error("there is a plot of what was not measured")
	}
	edited := strings.Replace(first, "# Performance\n", "# Performance\n\nBy hand.\n", 1) + "\n## Profile\n"
	if err := os.WriteFile(page, []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := report.Write(sample(), page, plots); err != nil {
		t.Fatal(err)
	}
	if got := read(t, page); got != edited {
		t.Errorf("written again:\n%s\nexpected:\n%s", got, edited)
	}
}

func TestWriteRefusesAPageWithoutItsLines(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "page.md")
	if err := os.WriteFile(page, []byte("# Mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := report.Write(sample(), page, dir); err == nil || read(t, page) != "# Mine\n" {
		t.Errorf("%v, page %q", err, read(t, page))
	}
}

func TestPlotsAreSVGWithTheirNames(t *testing.T) {
	dir := t.TempDir()
	if err := report.Write(sample(), filepath.Join(dir, "page.md"), dir); err != nil {
		t.Fatal(err)
	}
	for file, words := range map[string][]string{
		"throughput.svg": {"Throughput by concurrency", "jobs/s", "25 processors", "troupe", "brpop"},
		"cost.svg":       {"worker", "store", "5.00"},
		"latency.svg":    {"troupe p50", "brpop p99", "8 processes"},
	} {
		text := read(t, filepath.Join(dir, file))
		d := xml.NewDecoder(strings.NewReader(text))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
		}
		for _, word := range words {
			if !strings.Contains(text, ">"+word+"<") {
				t.Errorf("%s does not say %q", file, word)
			}
		}
	}
	if strings.Contains(read(t, filepath.Join(dir, "throughput.svg")), "three queues") {
		t.Error("the queues are on the axis of concurrencies")
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
