package actors_test

import (
	"runtime"
	"testing"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/testkit"
)

// Faults may be injected from other goroutines while the daemon starts. Run with -race.
func TestFaultsInjectedDuringTheStart(t *testing.T) {
	d, err := actors.New(actors.Config{Redis: testkit.Redis(t), Registry: new(troupe.Registry), Logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	for what, inject := range map[string]func() error{
		"Crash":   func() error { return d.Crash("launcher/poller", errInjected) },
		"Hold":    func() error { return d.Hold("launcher/poller") },
		"Release": func() error { return d.Release("launcher/poller") },
		"Suspend": func() error { return d.Suspend("launcher/poller") },
		"Resume":  func() error { return d.Resume("launcher/poller") },
	} {
		if inject() == nil || d.ActorSystem() != nil {
			t.Errorf("%s of a daemon that is not started succeeds, or it has a system", what)
		}
	}
	crashed := make(chan struct{})
	go func() {
		defer close(crashed)
		for d.ActorSystem() == nil || d.Crash("launcher/poller", errInjected) != nil {
			runtime.Gosched()
		}
	}()
	if err := d.Start(ctx); err != nil {
		t.Fatal(err)
	}
	<-crashed
	if _, err := d.Stop(ctx); err != nil {
		t.Fatal(err)
	}
}
