package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// What go-redis tells is in the log, and an outage does not flood it.
func TestLinesOfTheDriver(t *testing.T) {
	var out bytes.Buffer
	d := newDriverLog(zerolog.New(&out))
	for i := range 5 {
		d.Printf(t.Context(), "failed to dial after %d attempts", i)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 5 {
		t.Fatalf("%d lines:\n%s", len(lines), &out)
	}
	for i, line := range lines {
		level := "warn"
		if i >= 3 {
			level = "debug"
		}
		for _, part := range []string{`"level":"` + level + `"`, `"component":"go-redis"`, `"text":"failed to dial after `, `"message":"redis driver"`} {
			if !strings.Contains(line, part) {
				t.Errorf("line %d has no %s: %s", i, part, line)
			}
		}
	}
}
