package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/test/harness"
)

func loaded(t *testing.T, text string) (*Settings, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "troupe.yml")
	harness.OK(t, os.WriteFile(file, []byte(text), 0o600))
	return Load(Flags{File: file}, func(string) string { return "" })
}

// What a file says about classes without a handler is what the daemon does and what the summary tells.
func TestUnknownClassesAreReadAndBuilt(t *testing.T) {
	s, err := loaded(t, `
unknown: {queue: ruby}
capsules:
  a: {queues: [a]}
  b: {queues: [b], unknown: leave}
  c: {queues: [c], unknown: fail}
handlers:
  A: {builtin: noop, take: 10%, rest_queue: a_ruby}
  B: {builtin: noop, take: 100%}
`)
	harness.OK(t, err)
	c := harness.Must(s.Daemon(nil, zerolog.Nop(), nil))(t)
	for i, want := range []actors.Unknown{{Queue: "ruby"}, {Queue: "ruby"}, {Leave: true}, {}} {
		if got := c.Capsules[i].Unknown; got != want {
			t.Errorf("capsule %s: %+v, want %+v", c.Capsules[i].Name, got, want)
		}
	}
	e, _ := c.Registry.Lookup("A")
	if e.Options.Take != troupe.Percent(10) || e.Options.RestQueue != "a_ruby" {
		t.Errorf("options of A: %+v", e.Options)
	}
	var b strings.Builder
	harness.OK(t, s.Summary(&b))
	for _, want := range []string{
		"reliable fetch, unknown classes handed over to the queue ruby", "reliable fetch, unknown classes left in their queue",
		"builtin noop, takes 10% of its jobs, the others handed over to the queue a_ruby", "builtin noop, takes 100% of its jobs",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in:\n%s", want, b.String())
		}
	}
	fallback := harness.Must(loaded(t, `handlers: {"*": {exec: [sh]}}`))(t)
	if e, ok := harness.Must(fallback.Daemon(nil, zerolog.Nop(), nil))(t).Registry.Lookup("Else"); !ok || e.Class != troupe.AnyClass {
		t.Errorf("the fallback is %+v", e)
	}
}

func TestUnknownClassesFaults(t *testing.T) {
	const handlers = "handlers: {A: {builtin: noop}}\n"
	for text, want := range map[string]string{
		handlers + "unknown: keep":                                                                                                 `unknown is "keep", expected ` + wantUnknown,
		handlers + "unknown: {queue: ''}":                                                                                          `unknown.queue is "", expected the name of a queue`,
		handlers + "unknown: {queue: a.suspects}":                                                                                  "expected the name of a queue, in UTF-8, that does not end with .suspects",
		handlers + "unknown: {queues: a}":                                                                                          "expected " + wantUnknown,
		handlers + "unknown: {queue: default}":                                                                                     `unknown.queue is "default", expected a queue that this daemon does not take from (capsule default does): jobs would circle`,
		handlers + "capsules: {a: {queues: [b], unknown: {queue: default}}}":                                                       `capsules.a.unknown.queue is "default", expected a queue that this daemon does not take from (capsule default does)`,
		handlers + "capsules: {php: {wire: laravel, queues: [x], unknown: leave}}":                                                 "capsules.php.unknown is given for the capsule php, expected fail in a capsule of Laravel",
		handlers + "unknown: leave\ncapsules: {php: {wire: laravel, queues: [x]}}":                                                 "unknown is given for the capsule php, expected fail in a capsule of Laravel",
		`handlers: {"*": {builtin: noop}}` + "\nunknown: leave":                                                                    `unknown is given, expected none beside the handler "*"`,
		"handlers: {A: {builtin: noop, take: 10}}":                                                                                 `handlers.A.take is "10", expected ` + wantShare,
		"handlers: {A: {builtin: noop, take: 101%}}":                                                                               `handlers.A.take is "101%", expected ` + wantShare,
		"handlers: {A: {builtin: noop, take: 10%}}":                                                                                `handlers.A.take is 10%, expected a rest_queue beside it, or unknown: {queue: NAME} in the capsule default, for the other jobs`,
		"handlers: {A: {builtin: noop, take: 10%, rest_queue: default}}":                                                           `handlers.A.rest_queue is "default", expected a queue that this daemon does not take from`,
		"handlers: {A: {builtin: noop, rest_queue: x}}":                                                                            `handlers.A.rest_queue is "x", expected it beside take only`,
		"handlers: {A: {builtin: noop, take: 10%, rest_queue: x}}\ncapsules: {php: {wire: laravel, queues: [y]}}":                  "none beside a capsule of Laravel (php), whose jobs stay in their queue",
		handlers + "shards: {a: {redis: 'redis://h:1', queues: [x]}, b: {redis: 'redis://h:2', queues: [y]}}\nunknown: {queue: x}": `unknown.queue is "x", expected a queue that this daemon does not take from (capsule default does)`,
	} {
		_, err := loaded(t, text)
		harness.ErrorHas(t, text, err, want)
	}
	for _, text := range []string{
		handlers + "unknown: leave\ncapsules: {php: {wire: laravel, queues: [x], unknown: fail}}",
		handlers + "unknown: {queue: x}\ncapsules: {go: {wire: go-workers, namespace: n, queues: [x], unknown: fail}}",
	} {
		_, err := loaded(t, text)
		harness.OK(t, err)
	}
}
