package demo

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

var someNotes = []note{
	{at: noon, level: zerolog.InfoLevel, text: "troupe is running", count: 1},
	{at: noon, level: zerolog.WarnLevel, text: "job failed  Demo::Flaky  scripted failure 1 of 2 (retry)", count: 17},
	{at: noon, level: zerolog.ErrorLevel, text: "redis is away  launcher/poller  EOF\x1b[2J", count: 1},
}

func TestHead(t *testing.T) {
	stopping := picture(5)
	stopping.Phase, stopping.Wait = phaseStopping, 2345*time.Millisecond
	past := picture(5)
	past.Phase, past.Wait = phaseStopping, -time.Millisecond
	quiet := picture(5)
	quiet.Phase = phaseQuiet
	troubled := picture(5)
	troubled.Stats.RedisAway, troubled.Counted, troubled.Unpushed, troubled.Full = true, false, 3, true
	troubled.Start, troubled.Late = percentiles{}, percentiles{}
	var b strings.Builder
	for _, tt := range []struct {
		name string
		shot snapshot
	}{
		{"running", picture(5)}, {"stopping", stopping}, {"past the deadline", past}, {"quiet", quiet}, {"troubled", troubled},
	} {
		fmt.Fprintf(&b, "%s\n", tt.name)
		for _, l := range head(tt.shot) {
			fmt.Fprintf(&b, "%s\n", strings.TrimRight(l.String(), " "))
		}
	}
	for _, n := range someNotes {
		fmt.Fprintln(&b, n.line())
	}
	golden(t, "head.golden", b.String())
}

func TestFormats(t *testing.T) {
	if got := fmt.Sprint(tenth(41.26), millis(1234*time.Microsecond)); got != "41.3 1.23" {
		t.Errorf("got %s", got)
	}
}
