package config

import (
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/test/harness"
)

func TestPoisonAndRecoveryAreRead(t *testing.T) {
	f, err := Parse("troupe.yml", []byte(`
poison: {recoveries: 5, within: 1h, suspect: 0}
capsules: {other: {max_unresponsive: 4}}
handlers:
  A: {builtin: noop, recovery: {queue: big}}
  B: {builtin: noop, recovery: {delay: 90}}
  C: {builtin: noop, recovery: dead}
  D: {builtin: noop, recovery: same}
`), "")
	harness.OK(t, err)
	if want := (actors.Poison{Recoveries: 5, Within: time.Hour, Suspect: -1}); f.Poison != want {
		t.Errorf("poison %+v, want %+v", f.Poison, want)
	}
	if f.Capsules[0].MaxUnresponsive != 4 {
		t.Errorf("%+v", f.Capsules[0])
	}
	for i, want := range []troupe.Recovery{{Queue: "big"}, {Delay: 90 * time.Second}, {Dead: true}, {}} {
		if got := f.Handlers[i].Recovery; got != want {
			t.Errorf("%s: %+v, want %+v", f.Handlers[i].Class, got, want)
		}
	}
	harness.Equal(t, "the defaults are told as", poisonText(actors.Poison{}), "after 3 recoveries in 72h0m0s, suspect after 2")
}

func TestPoisonAndRecoveryFaults(t *testing.T) {
	for text, want := range map[string]string{
		"poison: 3":                "poison is \"3\", expected a map like",
		"poison: {recoveries: -1}": "poison.recoveries is \"-1\", expected a whole number",
		"poison: {within: 0}":      "poison.within is \"0\"",
		"poison: {recoverie: 3}":   "poison.recoverie is no known key, expected recoveries",
		"handlers: {A: {builtin: noop, recovery: elsewhere}}":            "handlers.A.recovery is \"elsewhere\", expected " + wantRecovery,
		"handlers: {A: {builtin: noop, recovery: {queue: a, delay: 1}}}": "expected " + wantRecovery,
		"handlers: {A: {builtin: noop, recovery: {}}}":                   "expected " + wantRecovery,
		"handlers: {A: {builtin: noop, recovery: {queue: ''}}}":          "expected the name of a queue",
	} {
		_, err := Parse("troupe.yml", []byte(text), "")
		harness.ErrorHas(t, text, err, want)
	}
}
