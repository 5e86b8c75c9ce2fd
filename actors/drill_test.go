package actors_test

import (
	"runtime"
	"testing"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// Faults may be injected from other goroutines while the daemon starts. Run with -race.
func TestFaultsInjectedDuringTheStart(t *testing.T) {
	d := harness.Must(actors.New(actors.Config{Redis: testkit.Redis(t), Registry: new(troupe.Registry), Logger: zerolog.Nop()}))(t)
	for what, inject := range map[string]func() error{
		"Crash":   func() error { return d.Faults().Crash("launcher/poller", errInjected) },
		"Hold":    func() error { return d.Faults().Hold("launcher/poller") },
		"Release": func() error { return d.Faults().Release("launcher/poller") },
		"Suspend": func() error { return d.Faults().Suspend("launcher/poller") },
		"Resume":  func() error { return d.Faults().Resume("launcher/poller") },
	} {
		if inject() == nil || d.Faults().Actors() != nil {
			t.Errorf("%s of a daemon that is not started succeeds, or it has a system", what)
		}
	}
	crashed := make(chan struct{})
	go func() {
		defer close(crashed)
		for d.Faults().Actors() == nil || d.Faults().Crash("launcher/poller", errInjected) != nil {
			runtime.Gosched()
		}
	}()
	harness.OK(t, d.Start(ctx))
	<-crashed
	harness.Must(d.Stop(ctx))(t)
}
