package handler

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/test/harness"
)

// The lines of a program's output name its job, however long the job's own names are.
func TestTheOutputOfAJobWithLongNamesMakesShortLines(t *testing.T) {
	var log bytes.Buffer
	h := harness.Must(newExec([]string{"echo", "hello"}, 0, zerolog.New(&log)))(t)
	x := strings.Repeat("x", 100_000)
	harness.OK(t, h.Perform(t.Context(), job(`{"class":"C`+x+`","jid":"J`+x+`","args":[]}`)))
	if n := log.Len(); n > 4<<10 || !strings.Contains(log.String(), `x… (100001 bytes)`) || !strings.Contains(log.String(), "hello") {
		t.Errorf("a line of %d bytes: %.200s", n, log.String())
	}
}
