package config

import (
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

func TestShareOfACapsule(t *testing.T) {
	load := func(text string) (*Settings, error) {
		t.Helper()
		return loadText(t, Flags{}, text+"\nhandlers: {NoOp: {builtin: noop}}\n")
	}
	s, err := load("capsules: {default: {share: 7}}")
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Daemon(nil, zerolog.Nop(), nil)
	if err != nil || len(c.Capsules) != 1 || c.Capsules[0].Share != 7 {
		t.Errorf("%+v, %v", c.Capsules, err)
	}
	var text strings.Builder
	if err := s.Summary(&text); err != nil || !strings.Contains(text.String(), "reliable fetch, share 7") {
		t.Errorf("summary:\n%s\n%v", &text, err)
	}

	for text, want := range map[string]string{
		"capsules: {a: {share: -1}}":                                                       `capsules.a.share is "-1", expected`,
		"capsules: {a: {share: 3, fetch: basic}}":                                          "troupe.yml:1: capsules.a.share is 3, expected 0 with fetch: basic",
		"fetch: basic\ncapsules: {a: {share: 3}}":                                          "troupe.yml:2: capsules.a.share is 3, expected 0 with fetch: basic",
		"redis: {cluster: [\"h:1\"]}\ncapsules: {a: {share: 3}}":                           "capsules.a.share is 3, expected 0 on a Redis Cluster",
		"shards: {x: {redis: redis+cluster://h:1, capsules: {a: {share: 3}}}}":             "shards.x.capsules.a.share is 3, expected 0 on a Redis Cluster",
		"fetch: basic\nshards: {x: {redis: redis://h:1, capsules: {default: {share: 3}}}}": "shards.x.capsules.default.share is 3, expected 0 with fetch: basic",
	} {
		if _, err := load(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\nerror %v\nexpected one with %q", text, err, want)
		}
	}
}
