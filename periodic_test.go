package troupe_test

import (
	"testing"
	"time"

	"github.com/troupehq/troupe"
)

func TestTick(t *testing.T) {
	for text, want := range map[string]time.Time{
		`{"troupe_tick":"2026-11-26T04:00:00Z"}`:      time.Date(2026, 11, 26, 4, 0, 0, 0, time.UTC),
		`{"troupe_tick":"2026-11-26T05:00:00+01:00"}`: time.Date(2026, 11, 26, 4, 0, 0, 0, time.UTC),
		`{"troupe_tick":"tomorrow"}`:                  {},
		`{"troupe_tick":1795225014}`:                  {},
		`{}`:                                          {},
	} {
		p, err := troupe.ParsePayload([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if at, ok := troupe.Tick(p); !at.Equal(want) || ok == want.IsZero() {
			t.Errorf("%s: %v %v", text, at, ok)
		}
	}
}
