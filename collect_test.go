package troupe_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/test/harness"
)

func TestHandleManyRefusesWhatIsOutOfRange(t *testing.T) {
	fn := func(context.Context, []*troupe.Job[Greeting]) []error { return nil }
	raw := func(context.Context, []*troupe.Job[troupe.RawArgs]) []error { return nil }
	for want, register := range map[string]func(r *troupe.Registry){
		"Collect.Max is -1, expected 1 to 10000, or 0 for 100": func(r *troupe.Registry) { troupe.HandleMany(r, fn, troupe.Collect{Max: -1}) },
		"Collect.Max is 10001":                                 func(r *troupe.Registry) { troupe.HandleMany(r, fn, troupe.Collect{Max: 10_001}) },
		"Collect.Wait is -1s, expected a time above 0":         func(r *troupe.Registry) { troupe.HandleMany(r, fn, troupe.Collect{Wait: -time.Second}) },
		"Collect.Wait is 200ms, expected less than Timeout, which is 100ms": func(r *troupe.Registry) {
			troupe.HandleMany(r, fn, troupe.Collect{}, troupe.Timeout(100*time.Millisecond))
		},
		"nil function for troupe_test.Greeting": func(r *troupe.Registry) { troupe.HandleMany[Greeting](r, nil, troupe.Collect{}) },
		`nil function for class "X"`:            func(r *troupe.Registry) { troupe.HandleManyClass(r, "X", nil, troupe.Collect{}) },
		"empty class":                           func(r *troupe.Registry) { troupe.HandleManyClass(r, "", raw, troupe.Collect{}) },
		`class "X": Queue is "q", expected none`: func(r *troupe.Registry) {
			troupe.HandleManyClass(r, "X", raw, troupe.Collect{}, troupe.Options{Queue: "q"})
		},
	} {
		func() {
			defer func() {
				if v, _ := recover().(string); !strings.Contains(v, want) {
					t.Errorf("%q, want %q", v, want)
				}
			}()
			register(troupe.NewRegistry())
		}()
	}
	r := troupe.NewRegistry()
	troupe.HandleMany(r, fn, troupe.Collect{})
	entry, _ := r.Lookup("Greeting")
	harness.Equal(t, "defaults", entry.Collect, troupe.Collect{Max: 100, Wait: 200 * time.Millisecond})
}
