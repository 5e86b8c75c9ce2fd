package sched

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// zones with their changes of the clocks in 2026; the last has none.
var zones = []struct {
	name    string
	changes []string
}{
	{"Europe/Berlin", []string{"2026-03-29T01:00:00Z", "2026-10-25T01:00:00Z"}},
	{"America/New_York", []string{"2026-03-08T07:00:00Z", "2026-11-01T06:00:00Z"}},
	{"Australia/Lord_Howe", []string{"2026-04-04T15:00:00Z", "2026-10-03T15:30:00Z"}},
	{"Asia/Kolkata", []string{"2026-03-28T18:30:00Z", "2026-10-24T18:30:00Z"}},
}

// section is a part of testdata/lines.txt.
type section struct {
	title string
	lines []string
}

func (s section) is(title string) bool { return strings.HasPrefix(s.title, title) }

func sections(tb testing.TB) (all []section) {
	tb.Helper()
	n := 0
	for line := range strings.Lines(string(harness.Must(os.ReadFile("testdata/lines.txt"))(tb))) {
		line = strings.TrimSuffix(line, "\n")
		if title, ok := strings.CutPrefix(line, "# "); ok {
			all = append(all, section{title: title})
			continue
		}
		all[len(all)-1].lines = append(all[len(all)-1].lines, line)
		n++
	}
	if n < 200 {
		tb.Fatalf("%d lines", n)
	}
	return all
}

// fugit is a Ruby process that answers for fugit; include is where another version of it lies.
type fugit struct {
	version string
	in      io.Writer
	out     *bufio.Scanner
}

func startFugit(t *testing.T, include, zone string) *fugit {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "ruby", "-W0", "-rfugit", "-e", "0").CombinedOutput(); err != nil {
		redistest.Missing(t, fmt.Errorf("fugit: %w\n%s", err, out))
	}
	cmd := exec.CommandContext(t.Context(), "ruby", "-W0", "-I"+include, "testdata/fugit.rb")
	cmd.Env = append(cmd.Environ(), "TZ="+zone)
	f := &fugit{}
	in := harness.Must(cmd.StdinPipe())(t)
	out := harness.Must(cmd.StdoutPipe())(t)
	f.in, f.out, cmd.Stderr = in, bufio.NewScanner(out), os.Stderr
	harness.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	if !f.out.Scan() {
		t.Fatal(f.out.Err())
	}
	harness.OK(t, json.Unmarshal(f.out.Bytes(), &f.version))
	return f
}

// answer is what fugit says of one time, times in seconds.
type answer struct {
	next, prev int64
	tick       bool
}

func (a *answer) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&a.next, &a.prev, &a.tick})
}

// ask returns nil if fugit refuses the line.
func (f *fugit) ask(t *testing.T, line string, times ...int64) (answers []answer) {
	t.Helper()
	if _, err := fmt.Fprintf(f.in, "%s\n", harness.Must(json.Marshal([]any{line, times}))(t)); err != nil || !f.out.Scan() {
		t.Fatal(line, err, f.out.Err())
	}
	harness.OK(t, json.Unmarshal(f.out.Bytes(), &answers))
	return answers
}

// around are the times of which fugit is asked in a zone: before and after each of its changes.
func around(t *testing.T, changes []string) (times []int64) {
	t.Helper()
	for _, change := range changes {
		at := harness.Must(time.Parse(time.RFC3339, change))(t)
		times = append(times, at.Add(-47*time.Minute).Unix(), at.Add(70*time.Minute).Unix())
	}
	return times
}

// inZone is a line with the zone, unless it has one of its own or can have none.
func inZone(s section, line, zone string) string {
	if s.is("zones of their own") || s.is("intervals") {
		return line
	}
	return line + " " + zone
}

// ours is what Parse, Next and Prev say, as it stands in the golden file.
func ours(line string, local *time.Location, times []int64) string {
	s, err := Parse(line, local)
	if err != nil {
		return "refused"
	}
	var b strings.Builder
	for _, at := range times {
		fmt.Fprintf(&b, "%d %d ", s.Prev(time.Unix(at-1, 0)).Unix(), s.Next(time.Unix(at, 0)).Unix())
	}
	return strings.TrimSpace(b.String())
}

// theirs is the same of fugit. Around a change of the clocks it misses some ticks, by as much as
// it then jumps too far; a tick of ours that is nearer and that fugit itself takes for one counts
// as its answer, and as a slip.
func (f *fugit) theirs(t *testing.T, line string, local *time.Location, times []int64) (text string, slips int) {
	t.Helper()
	answers := f.ask(t, line, times...)
	if answers == nil {
		return "refused", 0
	}
	s, err := Parse(line, local)
	var b strings.Builder
	for i, at := range times {
		prev, next := answers[i].prev, answers[i].next
		if err == nil {
			if p := s.Prev(time.Unix(at-1, 0)).Unix(); p > prev && f.ask(t, line, p)[0].tick {
				prev, slips = p, slips+1
			}
			if n := s.Next(time.Unix(at, 0)).Unix(); n < next && f.ask(t, line, n)[0].tick {
				next, slips = n, slips+1
			}
		}
		fmt.Fprintf(&b, "%d %d ", prev, next)
	}
	return strings.TrimSpace(b.String()), slips
}

// The ticks before and after both changes of the clocks, and the refusals, are those of the fugit
// of this machine, line by line and zone by zone. What it does not know yet is left to the golden
// file.
func TestLinesAreReadAsFugitReadsThem(t *testing.T) {
	for _, zone := range zones {
		t.Run(zone.name, func(t *testing.T) {
			t.Parallel()
			f, times, slips, asked := startFugit(t, ".", zone.name), around(t, zone.changes), 0, 0
			local := harness.Must(Zone(zone.name))(t)
			for _, s := range sections(t) {
				if s.is("refused here") || s.is("since fugit") || s.is("zones of their own") && zone.name != zones[0].name {
					continue
				}
				for _, line := range s.lines {
					line = inZone(s, line, zone.name)
					theirs, slipped := f.theirs(t, line, local, times)
					if got := ours(line, local, times); got != theirs {
						t.Errorf("%s: %s, and fugit %s says %s", line, got, f.version, theirs)
					}
					slips, asked = slips+slipped, asked+2*len(times)
				}
			}
			for _, text := range []string{"every 90s", "every 90 minutes", "every 7h"} {
				s := harness.Must(Parse(text, local))(t)
				if f.ask(t, text, times...) == nil || f.ask(t, s.String(), times...) != nil {
					t.Errorf("fugit should read %q, as something else, and refuse %q", text, s)
				}
			}
			if slips > asked/50 {
				t.Errorf("%d of %d answers of fugit are slips, expected a few", slips, asked)
			}
		})
	}
}

// The golden file has the answers of fugit 1.14.0, for all lines. To write it anew, with a fugit
// whose files are in a folder: TROUPE_FUGIT=DIR go test -run Golden
func TestLinesAreReadAsTheGoldenFugitReadsThem(t *testing.T) {
	const name = "testdata/fugit-1.14.0.golden"
	include := os.Getenv("TROUPE_FUGIT")
	var got, theirs strings.Builder
	for _, zone := range zones {
		var f *fugit
		if include != "" {
			f = startFugit(t, include, zone.name)
			if f.version != "1.14.0" {
				t.Fatal(f.version)
			}
		}
		times, local := around(t, zone.changes), harness.Must(Zone(zone.name))(t)
		for _, s := range sections(t) {
			for _, line := range s.lines {
				line = inZone(s, line, zone.name)
				text := ours(line, local, times)
				if s.is("refused here") {
					if text != "refused" {
						t.Errorf("%s is not refused", line)
					}
					continue
				}
				fmt.Fprintf(&got, "%s\t%s\n", line, text)
				if f != nil {
					text, _ = f.theirs(t, line, local, times)
					fmt.Fprintf(&theirs, "%s\t%s\n", line, text)
				}
			}
		}
	}
	if include != "" {
		harness.OK(t, os.WriteFile(name, []byte(theirs.String()), 0o600))
	}
	if diff := cmp.Diff(string(harness.Must(os.ReadFile(name))(t)), got.String()); diff != "" {
		t.Errorf("fugit's - and ours +:\n%s", diff)
	}
}
