package screen

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/clipperhouse/displaywidth"

	"github.com/troupehq/troupe/actors"
)

func line(text string) (l Line) {
	l.Add(Plain, text)
	return l
}

// A frame fits every terminal, and from 40×10 on it has rows, a title and hints.
func TestFramesFit(t *testing.T) {
	q := Query{Page: Page{Name: "dead"}, Width: 60, Rows: 10}
	table := q.tablePicture("ONE TWO THREE", []Row{
		cells("1", Page{}, "日本語の長い名前の仕事のクラス", "e\u0301 👩‍👩‍👧 \x1b[2J\r\n\u202e", strings.Repeat("x", 300)), cells("2", Page{}, "", "b", "c"),
	})
	for name, s := range map[string]*Screen{
		"nothing yet": {},
		"a table":     {picture: table, ask: &Act{What: strings.Repeat("retry 日本語 ", 20)}},
		"a fault":     {picture: table, fault: errors.New("boom\n"), said: "no"},
		"slow":        {picture: &Picture{}, began: time.Now().Add(-time.Hour), kind: ":", typed: "日本"},
	} {
		s.o = Options{
			Name: "troupe top", Place: "redis://localhost", ReadOnly: true,
			Head: func() []Line { return []Line{line(strings.Repeat("head ", 30)), line("b"), nil} },
			Foot: func(n int) []Line { return make([]Line, n) },
		}
		s.page = Page{Name: "dead"}
		s.of = s.view
		for width := 1; width < 130; width += 3 {
			for height := 1; height < 50; height++ {
				lines := s.frame(width, height)
				if height >= 10 && len(lines) != height {
					t.Fatalf("%s: %d lines on a terminal of %d×%d", name, len(lines), width, height)
				}
				for _, l := range lines {
					if text := l.Cut(width).String(); displaywidth.String(text) > width || strings.ContainsAny(text, "\n\r\x1b\u202e") || !utf8.ValidString(text) {
						t.Fatalf("%s: %d columns: %q", name, width, text)
					}
				}
				text := fmt.Sprint(lines)
				if s.picture == table && width >= 40 && height >= 10 && (!strings.Contains(text, "日本語") || !strings.Contains(text, "troupe top :dead")) {
					t.Fatalf("%s: %d×%d: %s", name, width, height, text)
				}
			}
		}
	}
}

// Columns that do not fit shrink, and then those on the right are left out.
func TestTable(t *testing.T) {
	for width, want := range map[int]string{
		80: "NAME         STATE         WHAT|identity-42  a long state  and something more|x            y             z",
		38: "NAME         STATE        WHAT|identity-42  a long sta…  and somethi…|x            y            z",
		24: "NAME         STATE|identity-42  a long sta…|x            y",
		11: "NAME|identity-42|x",
		8:  "NAME|identit…|x",
	} {
		q := Query{Width: width}
		var got []string
		for _, r := range q.table("NAME STATE WHAT", []Row{cells("", Page{}, "identity-42", "a long state", "and something more"), cells("", Page{}, "x", "y", "z")}) {
			got = append(got, strings.TrimRight(r.String(), " "))
			if displaywidth.String(r.String()) > width {
				t.Errorf("%d columns: %q", width, r)
			}
		}
		if text := strings.Join(got, "|"); text != want {
			t.Errorf("%d columns: %q, expected %q", width, text, want)
		}
	}
	q := Query{Width: 80, Filter: "Y"}
	if rows := q.table("NAME WHAT", []Row{cells("", Page{}, "a", "b"), cells("", Page{}, "x", "y")}); len(rows) != 2 || rows[1].Line[0].Text != "x" {
		t.Errorf("filtered: %v", rows)
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"", 10, ""}, {"a b", 10, "a b"}, {"one two three", 8, "one two |three"}, {"abcdefghij", 4, "abcd|efgh|ij"},
		{"日本語の名前", 5, "日本|語の|名前"}, {"日本", 1, "日|本"}, {"a\x1bb\nc", 9, "a b c"},
	} {
		var got []string
		for _, l := range wrap(Plain, c.text, c.width) {
			got = append(got, l.String())
		}
		if text := strings.Join(got, "|"); text != c.want {
			t.Errorf("%q in %d: %q, expected %q", c.text, c.width, text, c.want)
		}
	}
}

func TestFormats(t *testing.T) {
	long := line("ab")
	long.Add(Red, "cd日本")
	for _, c := range []struct{ got, want string }{
		{long.Cut(8).String(), "abcd日本"}, {long.Cut(7).String(), "abcd日…"}, {long.Cut(6).String(), "abcd…"}, {long.Cut(2).String(), "a…"}, {long.Cut(1).String(), "…"},
		{Spark(nil, 5), ""}, {Spark([]float64{0, 0}, 5), "▁▁"}, {Spark([]float64{100, 0, 4, 7}, 3), "▁▅█"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, expected %q", c.got, c.want)
		}
	}
}

// The processors that have nothing to tell are summed up where the tree does not fit.
func TestFit(t *testing.T) {
	node := func(path, role, capsule string, state actors.State) actors.Node {
		return actors.Node{Path: path, Role: role, Capsule: capsule, State: state}
	}
	tree := actors.Tree{node("launcher", "launcher", "", actors.StateRunning)}
	for _, capsule := range []string{"a", "b"} {
		tree = append(tree, node("launcher/"+capsule, "manager", capsule, actors.StateRunning))
		for i := range 10 {
			n := node(fmt.Sprintf("launcher/%s/processor-%d", capsule, i), "processor", capsule, actors.StateIdle)
			switch i {
			case 2:
				n.State, n.Job = actors.StateBusy, &actors.JobRef{Started: time.Now()}
			case 5:
				n.State, n.Job = actors.StateBusy, &actors.JobRef{Started: time.Now().Add(-time.Minute)}
			case 7:
				n.State = actors.StateRestarting
			}
			tree = append(tree, n)
		}
	}
	if whole := Fit(tree, len(tree)); len(whole) != len(tree) {
		t.Errorf("%d rows, expected %d", len(whole), len(tree))
	}
	var got []string
	for _, n := range Fit(tree, len(tree)-1) {
		got = append(got, n.Path+" "+string(n.State))
	}
	want := []string{
		"launcher running", "launcher/a running", "launcher/a/8 more: 1 busy, 7 idle", "launcher/a/processor-5 busy", "launcher/a/processor-7 restarting",
		"launcher/b running", "launcher/b/8 more: 1 busy, 7 idle", "launcher/b/processor-5 busy", "launcher/b/processor-7 restarting",
	}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%q\nexpected %q", got, want)
	}
	q := Query{Rows: 5, Width: 80, Filter: "Restarting"}
	if p := q.TreePicture(Row{}, tree); len(p.Rows) != 3 {
		t.Errorf("filtered: %v", p.Rows)
	}
}

func TestMeter(t *testing.T) {
	m, noon := Meter{Window: 3 * time.Second}, time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	if a, b := m.Add(noon, 0, 0); a != 0 || b != 0 {
		t.Error("rates of the first sample")
	}
	var a, b float64
	for i := 1; i < 1000; i++ { // 250 s, 40 and 20 a second
		a, b = m.Add(noon.Add(time.Duration(i)*250*time.Millisecond), uint64(10*i), uint64(5*i))
	}
	if a != 40 || b != 20 {
		t.Errorf("rates %v and %v, expected 40 and 20", a, b)
	}
	if len(m.History) != historySize || m.History[0] != 40 || len(m.samples) > 14 {
		t.Errorf("history of %d, first %v; %d samples", len(m.History), m.History[0], len(m.samples))
	}
	at := noon.Add(time.Hour)
	m.Add(at, 10_000, 0)
	m.Add(at.Add(time.Second), 10_000, 0)
	if a, _ := m.Add(at.Add(m.Window), 10_000, 0); a != 0 {
		t.Errorf("rate %v after three seconds of nothing", a)
	}
}

type stub func(q Query) (*Picture, error)

func (s stub) Look(_ context.Context, q Query) (*Picture, error) { return s(q) }

func TestText(t *testing.T) {
	looks := 0
	source := stub(func(q Query) (*Picture, error) {
		if looks++; looks > 2 {
			return nil, errors.New("boom")
		}
		return q.tablePicture("A B", []Row{cells("", Page{}, "x", "\x1b"), cells("", Page{}, fmt.Sprint(looks), "z")}), nil
	})
	o := Options{Source: source, Name: "troupe top", Place: "here", Page: Page{Name: "queues"}, Every: time.Millisecond}
	text, err := Text(t.Context(), o, 80, 2)
	if _, rest, _ := strings.Cut(text, "\n"); err != nil || !strings.HasPrefix(text, "troupe top :queues  ") || rest != "A  B\nx\n2  z\n" {
		t.Errorf("%v %q", err, text)
	}
	if _, err := Text(t.Context(), o, 80, 2); err == nil {
		t.Error("no error")
	}
}
