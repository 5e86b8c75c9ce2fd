package config

import (
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/test/harness"
)

func TestWaitersOfACapsule(t *testing.T) {
	load := func(text string) (*Settings, error) {
		t.Helper()
		return loadText(t, Flags{}, text+"\nhandlers: {NoOp: {builtin: noop}}\n")
	}
	s := harness.Must(load("capsules: {default: {waiters: 7}}"))(t)
	c, err := s.Daemon(nil, zerolog.Nop(), nil)
	if err != nil || len(c.Capsules) != 1 || c.Capsules[0].Waiters != 7 {
		t.Errorf("%+v, %v", c.Capsules, err)
	}
	var text strings.Builder
	if err := s.Summary(&text); err != nil || !strings.Contains(text.String(), "reliable fetch, 7 waiters a queue") {
		t.Errorf("summary:\n%s\n%v", &text, err)
	}

	for text, want := range map[string]string{
		"capsules: {a: {waiters: -1}}":                                                       `capsules.a.waiters is "-1", expected`,
		"capsules: {a: {waiters: 3, fetch: basic}}":                                          "troupe.yml:1: capsules.a.waiters is 3, expected 0 with fetch: basic",
		"fetch: basic\ncapsules: {a: {waiters: 3}}":                                          "troupe.yml:2: capsules.a.waiters is 3, expected 0 with fetch: basic",
		"capsules: {a: {waiters: 9}}":                                                        `capsules.a.waiters is "9", expected`,
		"fetch: basic\nshards: {x: {redis: redis://h:1, capsules: {default: {waiters: 3}}}}": "shards.x.capsules.default.waiters is 3, expected 0 with fetch: basic",
	} {
		if _, err := load(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\nerror %v\nexpected one with %q", text, err, want)
		}
	}
}
