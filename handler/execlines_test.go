package handler

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// The lines of a program's output name its job, however long the job's own names are.
func TestTheOutputOfAJobWithLongNamesMakesShortLines(t *testing.T) {
	var log bytes.Buffer
	h, err := newExec([]string{"echo", "hello"}, 0, zerolog.New(&log))
	if err != nil {
		t.Fatal(err)
	}
	x := strings.Repeat("x", 100_000)
	if err := h.Perform(t.Context(), job(`{"class":"C`+x+`","jid":"J`+x+`","args":[]}`)); err != nil {
		t.Fatal(err)
	}
	if n := log.Len(); n > 4<<10 || !strings.Contains(log.String(), `x… (100001 bytes)`) || !strings.Contains(log.String(), "hello") {
		t.Errorf("a line of %d bytes: %.200s", n, log.String())
	}
}
