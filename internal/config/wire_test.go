package config

import (
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/test/harness"
)

func TestWireOfACapsule(t *testing.T) {
	load := func(text string) (*Settings, error) {
		t.Helper()
		return loadText(t, Flags{}, text+"\nhandlers: {NoOp: {builtin: noop}}\n")
	}
	s, err := load("capsules: {default: {concurrency: 1}, a: {wire: go-workers, namespace: app, queues: [x], classes: {x: NoOp}}, b: {wire: go-workers, namespace: app, queues: [y]}, c: {wire: sidekiq}, d: {wire: go-workers, queues: [z]}}")
	harness.OK(t, err)
	c, err := s.Daemon(nil, zerolog.Nop(), nil)
	if err != nil || len(c.Capsules) != 5 {
		t.Fatalf("%+v, %v", c.Capsules, err)
	}
	a, b, none, d := c.Capsules[1].Wire, c.Capsules[2].Wire, c.Capsules[3].Wire, c.Capsules[4].Wire
	if a == nil || a != b || none != nil || d == nil || d == a {
		t.Errorf("wires %p %p %p %p", a, b, none, d)
	}
	harness.Equal(t, "retry is", a.Key("retry"), "app:goretry")
	if p, err := a.Parse([]byte(`{"class":"Any"}`), "x"); err != nil || p.Class() != "NoOp" {
		t.Errorf("class %v, %v", p, err)
	}
	var text strings.Builder
	if err := s.Summary(&text); err != nil || !strings.Contains(text.String(), "reliable fetch, jobs of go-workers in app") {
		t.Errorf("summary:\n%s\n%v", &text, err)
	}
	for text, want := range map[string]string{
		"capsules: {a: {wire: laravels}}":                          `capsules.a.wire is "laravels", expected`,
		"capsules: {a: {namespace: x}}":                            `capsules.a.namespace is "x", expected none without wire: go-workers`,
		"capsules: {a: {classes: {x: NoOp}}}":                      `capsules.a.classes is a map, expected none without`,
		"capsules: {a: {wire: go-workers, classes: [x]}}":          `capsules.a.classes is`,
		"capsules: {a: {wire: go-workers, classes: {x: Unknown}}}": `capsules.a.classes.x is "Unknown", expected a class that handlers: has`,
		"capsules: {a: {wire: go-workers, fetch: basic}}":          `capsules.a.wire is "go-workers", expected sidekiq with fetch: basic`,
	} {
		if _, err := load(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\nerror %v\nexpected one with %q", text, err, want)
		}
	}
}
