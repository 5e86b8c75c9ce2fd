package run

import (
	"testing"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actors/internal/retry"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/test/harness"
)

// The levels of the table are zerolog's, and each decision has its row.
func TestOutcomesOfDecisions(t *testing.T) {
	for _, c := range []struct {
		outcome job.Outcome
		logged  string
		level   zerolog.Level
		to      string
	}{
		{retry.Retry, "retry", zerolog.WarnLevel, "to retry"},
		{retry.Dead, "dead", zerolog.ErrorLevel, "to dead"},
		{retry.Drop, "drop", zerolog.WarnLevel, ""},
		{retry.Park, "parked", zerolog.InfoLevel, "to schedule"},
		{retry.Move, "moved", zerolog.InfoLevel, "to the back"},
	} {
		level, text := c.outcome.Line()
		to, sends := c.outcome.To()
		if text == "" || sends != (c.to != "") || sends && to.String() != c.to {
			t.Errorf("%s: %q, %s, %v", c.outcome, text, to, sends)
		}
		harness.Equal(t, c.outcome.String(), c.outcome.Logged(), c.logged)
		harness.Equal(t, c.outcome.String(), zerolog.Level(level), c.level)
	}
}

func TestOutcomesHaveNames(t *testing.T) {
	names := map[string]bool{}
	for o := range job.Poisoned + 1 {
		if names[o.String()] || o.String() == "" {
			t.Errorf("outcome %d is named %q", o, o.String())
		}
		names[o.String()] = true
	}
	for kind, state := range job.EventStates() {
		if state == "" {
			t.Errorf("%s has no sign", kind)
		}
	}
}
