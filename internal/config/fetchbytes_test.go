package config

import (
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/test/harness"
)

func TestFetchBytesOfACapsule(t *testing.T) {
	load := func(text string) (*Settings, error) {
		t.Helper()
		return loadText(t, Flags{}, text+"\nhandlers: {NoOp: {builtin: noop}}\n")
	}
	s := harness.Must(load("capsules: {default: {fetch_bytes: 65536}}"))(t)
	c, err := s.Daemon(nil, zerolog.Nop(), nil)
	if err != nil || len(c.Capsules) != 1 || c.Capsules[0].FetchBytes != 65536 {
		t.Errorf("%+v, %v", c.Capsules, err)
	}
	var text strings.Builder
	if err := s.Summary(&text); err != nil || !strings.Contains(text.String(), "reliable fetch of 65536 bytes at a time") {
		t.Errorf("summary:\n%s\n%v", &text, err)
	}
	for _, value := range []string{"0", "1000", "2000000000", "1MB"} {
		_, err := load("capsules: {a: {fetch_bytes: " + value + "}}")
		if want := `capsules.a.fetch_bytes is "` + value + `", expected`; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, expected one with %q", value, err, want)
		}
	}
}
