package actors_test

import (
	"runtime"
	"testing"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/door"
	"github.com/troupehq/troupe/testkit"
)

// Faults may be injected from other goroutines while the daemon starts. Run with -race.
func TestFaultsInjectedDuringTheStart(t *testing.T) {
	d, err := actors.New(actors.Config{Redis: testkit.Redis(t), Registry: new(troupe.Registry), Logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	for what, inject := range map[string]func() error{
		"Crash":   func() error { return door.Of(d).Crash("launcher/poller", errInjected) },
		"Hold":    func() error { return door.Of(d).Hold("launcher/poller") },
		"Release": func() error { return door.Of(d).Release("launcher/poller") },
		"Suspend": func() error { return door.Of(d).Suspend("launcher/poller") },
		"Resume":  func() error { return door.Of(d).Resume("launcher/poller") },
	} {
		if inject() == nil || door.Of(d).Actors() != nil {
			t.Errorf("%s of a daemon that is not started succeeds, or it has a system", what)
		}
	}
	crashed := make(chan struct{})
	go func() {
		defer close(crashed)
		for door.Of(d).Actors() == nil || door.Of(d).Crash("launcher/poller", errInjected) != nil {
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
