package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/jobctx"
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

// reports is what takes a result.
type reports struct{ text json.RawMessage }

func (r *reports) SetResult(text json.RawMessage) error     { r.text = text; return nil }
func (*reports) SetProgress(done, total int64, text string) {}

// What a program writes to stdout is its result if that is wanted, and it is done: as JSON, or as a text. Too much is not kept.
func TestStdoutIsTheResult(t *testing.T) {
	for _, c := range []struct{ script, want, log string }{
		{`printf '{"bytes":12345678901234567890}\n'`, `{"bytes":12345678901234567890}`, ""},
		{`printf 'cat.png\r\n\n'; echo said >&2`, `"cat.png"`, "said"},
		{`printf '7 8\n'`, `"7 8"`, ""},
		{`true`, ``, ""},
		{`printf 7; exit 3`, ``, ""},
		{`head -c 65537 /dev/zero`, ``, "65537 bytes to stdout, expected at most 65536 (troupe.MaxResult)"},
		{`printf '\377'`, "\"\ufffd\"", ""},
	} {
		var log bytes.Buffer
		h := harness.Must(NewExec(ExecOptions{Command: []string{"sh", "-c", c.script}, Result: true, Logger: zerolog.New(&log)}))(t)
		var got reports
		err := h.Perform(context.WithValue(t.Context(), jobctx.Report{}, &got), job(`{"class":"C","jid":"J","args":[]}`))
		if string(got.text) != c.want || (err != nil) != strings.Contains(c.script, "exit") || !strings.Contains(log.String(), c.log) || strings.Contains(log.String(), "cat.png") {
			t.Errorf("%s: %s, %v, log %s; expected %s", c.script, got.text, err, log.String(), c.want)
		}
	}
}
