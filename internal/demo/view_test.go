package demo

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actors"
)

var someNotes = []note{
	{at: noon, level: zerolog.InfoLevel, text: "troupe is running", count: 1},
	{at: noon, level: zerolog.WarnLevel, text: "job failed  Demo::Flaky  scripted failure 1 of 2 (retry)", count: 17},
	{at: noon, level: zerolog.ErrorLevel, text: "redis is away  launcher/poller  EOF", count: 1},
}

func TestView(t *testing.T) {
	stopping := picture(5)
	stopping.Phase, stopping.Wait = phaseStopping, 2345*time.Millisecond
	past := picture(5)
	past.Phase, past.Wait = phaseStopping, -time.Millisecond
	quiet := picture(5)
	quiet.Phase = phaseQuiet
	troubled := picture(5)
	troubled.Stats.RedisAway, troubled.Counted, troubled.Unpushed, troubled.Full = true, false, 3, true
	troubled.Start, troubled.Late = percentiles{}, percentiles{}
	for _, tt := range []struct {
		name          string
		shot          snapshot
		width, height int
	}{
		{"whole", picture(5), 100, 40},
		{"small", picture(12), 80, 24},
		{"tiny", picture(12), 30, 12},
		{"stopping", stopping, 100, 30},
		{"past-deadline", past, 100, 30},
		{"quiet", quiet, 100, 30},
		{"troubled", troubled, 100, 30},
	} {
		t.Run(tt.name, func(t *testing.T) {
			golden(t, tt.name+".golden", text(view(tt.shot, someNotes, tt.height), tt.width))
		})
	}
}

func TestViewFitsEverySize(t *testing.T) {
	for _, processors := range []int{1, 2, 5, 100} {
		shot := picture(processors)
		for height := 1; height < 60; height++ {
			rows := view(shot, someNotes, height)
			if len(rows) > height {
				t.Errorf("%d processors: %d rows on a screen of %d", processors, len(rows), height)
			}
			for _, width := range []int{1, 20, 80, 200} {
				for _, r := range rows {
					if line := r.draw(width, false); utf8.RuneCountInString(line) > width || strings.ContainsAny(line, "\n\x1b") {
						t.Fatalf("%d columns: %q", width, line)
					}
				}
			}
		}
	}
}

func TestTreeSumsUpWhatDoesNotFit(t *testing.T) {
	shot := picture(30)
	for limit := 13; limit < 45; limit++ {
		entries := fit(shot.Tree, noon, limit)
		if len(entries) > limit {
			t.Errorf("%d entries, limit %d", len(entries), limit)
		}
		processors := 0
		paths := map[string]bool{}
		for _, e := range entries {
			if e.sum != nil {
				processors += e.sum.all
				if e.sum.all == 1 {
					t.Errorf("limit %d: a sum of one", limit)
				}
				continue
			}
			paths[e.node.Path] = true
			if e.node.Role == "processor" {
				processors++
			}
		}
		if processors != 31 {
			t.Errorf("limit %d: %d processors shown or summed up, expected 31", limit, processors)
		}
		// the restarting one, then the long run, then the one that was restarted
		for i, path := range []string{"processor-9", "processor-7", "processor-3"} {
			if limit >= 13+i && !paths["launcher/default/"+path] {
				t.Errorf("limit %d: %s is not shown", limit, path)
			}
		}
	}
}

func TestTally(t *testing.T) {
	var sum tally
	for _, n := range []actors.Node{
		{State: actors.StateBusy}, {State: actors.StateBusy, Restarts: 2}, {State: actors.StateIdle},
		{State: actors.StateStopped}, {State: actors.StateCrashed, Restarts: 1},
	} {
		sum.add(n)
	}
	if got, want := sum.String(), "2 busy, 1 idle, 1 stopped, 1 down, restarts 3"; got != want {
		t.Errorf("got %q, expected %q", got, want)
	}
}

func TestRowDraw(t *testing.T) {
	var r row
	r.add(bold, "ab")
	r.add(plain, "cd")
	r.add(red, "e\x1b\nf")
	for _, tt := range []struct {
		width int
		color bool
		want  string
	}{
		{10, false, "abcde· f"},
		{8, false, "abcde· f"},
		{7, false, "abcde·…"},
		{3, true, "\x1b[1mab\x1b[0m…"},
		{8, true, "\x1b[1mab\x1b[0mcd\x1b[31me· f\x1b[0m"},
		{1, false, "…"},
	} {
		if got := r.draw(tt.width, tt.color); got != tt.want {
			t.Errorf("width %d, color %t: got %q, expected %q", tt.width, tt.color, got, tt.want)
		}
	}
}

func TestFormats(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{grouped(0), "0"},
		{grouped(999), "999"},
		{grouped(1000), "1,000"},
		{grouped(int64(-123456)), "-123,456"},
		{grouped(uint64(1234567)), "1,234,567"},
		{short(-1), "0s"},
		{short(85400), "85µs"},
		{short(1234 * time.Microsecond), "1.2ms"},
		{short(123456 * time.Microsecond), "123ms"},
		{short(1234 * time.Millisecond), "1.2s"},
		{short(125 * time.Second), "2m5s"},
		{spark(nil, 5), ""},
		{spark([]float64{0, 0}, 5), "▁▁"},
		{spark([]float64{100, 0, 4, 7}, 3), "▁▅█"},
		{fmt.Sprint(tenth(41.26), millis(1234*time.Microsecond)), "41.3 1.23"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, expected %q", tt.got, tt.want)
		}
	}
}
