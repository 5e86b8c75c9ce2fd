package demo

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/test/harness"
)

var update = flag.Bool("update", false, "write the golden files")

// running is a show that runs in a goroutine.
type running struct {
	*show
	signals chan os.Signal
	ended   chan error
}

func runShow(t *testing.T, s *show) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{show: s, signals: make(chan os.Signal, 16), ended: make(chan error, 1)}
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.ended <- s.run(ctx, r.signals)
	}()
	t.Cleanup(func() {
		cancel()
		<-over
	})
	return r
}

// end waits for the end and returns its error.
func (r *running) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(time.Minute):
		t.Fatal("the demo did not end within a minute")
		return nil
	}
}

// quickly are options for tests.
func quickly() options {
	o := defaults()
	o.timeout = 50 * time.Millisecond
	o.format = formatConsole
	return o
}

// golden compares with a file of testdata, which go test -update writes.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		harness.OK(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want := harness.Must(os.ReadFile(path))(t)
	if got != string(want) {
		t.Errorf("%s differs; got:\n%s\nwant:\n%s", path, got, want)
	}
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// picture is a fixed snapshot with n processors in the capsule "default".
func picture(n int) snapshot {
	job := func(class string, age time.Duration) *actors.JobRef {
		return &actors.JobRef{JID: "0123456789abcdef01234567", Class: class, Started: noon.Add(-age)}
	}
	tree := actors.Tree{
		{Path: "launcher", Role: "launcher", State: actors.StateRunning},
		{Path: "launcher/batch", Role: "manager", Capsule: "batch", State: actors.StateRunning},
		{Path: "launcher/batch/fetcher", Role: "fetcher", Capsule: "batch", State: actors.StateRunning},
		{
			Path: "launcher/batch/processor-0", Role: "processor", Capsule: "batch", State: actors.StateBusy,
			Job: job("Demo::Unresponsive", 75*time.Second),
		},
		{Path: "launcher/default", Role: "manager", Capsule: "default", State: actors.StateRunning},
		{Path: "launcher/default/fetcher", Role: "fetcher", Capsule: "default", State: actors.StateRunning},
	}
	for i := range n {
		node := actors.Node{
			Path: "launcher/default/processor-" + strconv.Itoa(i), Role: "processor", Capsule: "default", State: actors.StateIdle,
		}
		switch i {
		case 0:
			node.State, node.Job = actors.StateBusy, job("Demo::Quick", 3*time.Millisecond)
		case 3:
			node.Restarts, node.LastFailure = 2, "job Demo::Panics 0123456789abcdef01234567: panic: scripted\npanic \x1b[2J"
		case 7:
			node.State, node.Job = actors.StateBusy, job("Demo::Slow", 1300*time.Millisecond)
		case 9:
			node.State, node.Restarts, node.LastFailure = actors.StateRestarting, 1, errors.New("boom").Error()
		}
		tree = append(tree, node)
	}
	tree = append(tree,
		actors.Node{Path: "launcher/heartbeat", Role: "heartbeat", State: actors.StateRunning},
		actors.Node{Path: "launcher/poller", Role: "poller", State: actors.StateRunning},
		actors.Node{Path: "launcher/rescuer", Role: "rescuer", State: actors.StateRunning},
	)
	return snapshot{
		Now: noon, Up: 75 * time.Second, Left: 5 * time.Second, Phase: phaseRunning,
		Stats: actors.Stats{Processed: 12345, Failed: 67, Busy: 3}, Slots: n + 1, Tree: tree,
		Counts: counts{Enqueued: 4, Scheduled: 12, Retries: 8, Dead: 2}, Counted: true,
		Pushed: 12400, Retried: 50, DoneRate: 41.234, PushRate: 40, History: []float64{0, 10, 20, 40, 41.5},
		Start: percentiles{P50: 850 * time.Microsecond, P99: 4310 * time.Microsecond, N: 1400},
		Late:  percentiles{P50: 1900 * time.Microsecond, P99: 12345 * time.Microsecond, N: 28},
	}
}
