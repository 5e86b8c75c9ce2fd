package actors_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

func panicsInAHook(context.Context) { panic("in a hook") }

func exitsInAHook(context.Context) { runtime.Goexit() }

// A callback that fails has a line with its event, its name and its stack.
func TestAFailedCallbackIsNamedInTheLog(t *testing.T) {
	for name, f := range map[string]func(context.Context){"panicsInAHook": panicsInAHook, "exitsInAHook": exitsInAHook} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log harness.Buffer
				fs := []func(context.Context){f}
				k := testkit.Start(t, actors.Config{
					Logger: zerolog.New(&log),
					On:     actors.Events{Quiet: fs, Shutdown: fs, Exit: fs, Heartbeat: fs, Beat: fs},
				})
				time.Sleep(time.Second)
				k.Stop()
				for _, event := range []string{"quiet", "shutdown", "exit", "heartbeat", "beat"} {
					line := fmt.Sprintf(`"event":%q,"callback":"github.com/troupehq/troupe/actors_test.%s"`, event, name)
					if log.Count(line) == 0 {
						t.Errorf("no line with %s:\n%s", line, log.String())
					}
				}
				if all, stacks := log.Count("a lifecycle callback failed"), log.Count("actors_test."+name+"("); stacks < all || all < 5 {
					t.Errorf("%d lines, %d stacks:\n%s", all, stacks, log.String())
				}
			})
		})
	}
}

func TestAFailedStartupCallbackIsNamedInTheLog(t *testing.T) {
	var log harness.Buffer
	d, err := actors.New(actors.Config{
		Redis: testkit.Redis(t), Registry: new(troupe.Registry), Logger: zerolog.New(&log),
		On: actors.Events{Startup: []func(context.Context) error{func(ctx context.Context) error { panicsInAHook(ctx); return nil }}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := errors.AsType[*troupe.PanicError](d.Start(ctx)); !ok {
		t.Error("the start succeeds, or fails of something else")
	}
	if log.Count(`"event":"startup","callback":"github.com/troupehq/troupe/actors_test.`) != 1 || log.Count("actors_test.panicsInAHook(") != 1 {
		t.Errorf("the log does not name the callback:\n%s", log.String())
	}
}
