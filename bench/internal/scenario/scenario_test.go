package scenario

import (
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/troupehq/troupe/bench/internal/contender"
	"github.com/troupehq/troupe/bench/internal/result"
	"github.com/troupehq/troupe/bench/internal/server"
	"github.com/troupehq/troupe/internal/test/redistest"
)

func TestMain(m *testing.M) {
	contender.Child()
	os.Exit(m.Run())
}

func lab(t *testing.T) *Lab {
	t.Helper()
	if err := server.RedisMissing(); err != nil {
		redistest.Missing(t, err)
	}
	l, err := NewLab(t.Context(), Short(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func ofLoops(t *testing.T) drain {
	t.Helper()
	c, err := contender.Find("brpop")
	if err != nil {
		t.Fatal(err)
	}
	return drain{
		scenario: result.Drain, kase: "test", c: c,
		load: contender.Load{Jobs: 5000, Queues: oneQueue}, work: contender.Work{Concurrency: 5},
	}
}

// A figure of a run in which jobs ran twice would be worth nothing.
func TestADrainThatRunsMoreThanThereWasFails(t *testing.T) {
	l, d := lab(t), ofLoops(t)
	fill := d.c.Fill
	d.c.Fill = func(ctx context.Context, st contender.Store, load contender.Load) error {
		load.Jobs *= 2
		return fill(ctx, st, load)
	}
	if _, err := l.measure(t.Context(), d); err == nil || !strings.Contains(err.Error(), "expected 5000") {
		t.Errorf("it was accepted: %v", err)
	}
}

func TestAWorkerThatEndsEndsTheMeasurement(t *testing.T) {
	l, d := lab(t), ofLoops(t)
	d.c.Command = func(contender.Work) (*exec.Cmd, error) {
		return exec.CommandContext(context.Background(), "sh", "-c", "echo no such luck; exit 4"), nil
	}
	_, err := l.measure(t.Context(), d)
	if err == nil || !strings.Contains(err.Error(), "exit status 4") || !strings.Contains(err.Error(), "no such luck") {
		t.Errorf("the error does not tell why: %v", err)
	}
}

// Each round starts from the same data, whatever the last one did with it.
func TestRoundsStartFromTheSameData(t *testing.T) {
	l, d := lab(t), ofLoops(t)
	filled := 0
	fill := d.c.Fill
	d.c.Fill = func(ctx context.Context, st contender.Store, load contender.Load) error {
		filled++
		return fill(ctx, st, load)
	}
	l.Size.Rounds = 3
	if err := l.rounds(t.Context(), []drain{d}); err != nil { // 5,000 jobs ran in each
		t.Fatal(err)
	}
	row := l.Set.Find(result.Drain, "test", "brpop")
	if n := len(row.Samples[result.Rate.Key]); n != 3 || filled != 1 {
		t.Errorf("%d samples, filled %d times, expected 3 and once", n, filled)
	}
	if trips := row.Median(result.Trips); trips < 0.5 || trips > 3 {
		t.Errorf("%v round trips a job, expected about 1", trips)
	}
}
