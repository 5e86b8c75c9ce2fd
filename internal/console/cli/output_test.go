package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// What others wrote cannot drive a terminal, and stays the same value in JSON.
func TestForeignText(t *testing.T) {
	const hostile = "a\x1b[31m\u009b31m\x7f\u202eb\u2028\x00\r\n<&>é😀"
	harness.Equal(t, "line", Line(hostile), "a [31m 31m  b    <&>é😀")
	var out bytes.Buffer
	s := &Session{Out: &out}
	value := map[string]any{"text": hostile, "raw": json.RawMessage(`"` + "\u009b\u202e\x7f" + `"`)}
	if err := s.PrintJSON(value); err != nil {
		t.Fatal(err)
	}
	if text := strings.TrimSuffix(out.String(), "\n"); Line(text) != text {
		t.Errorf("JSON %q", text)
	}
	var back map[string]string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back["text"] != hostile || back["raw"] != "\u009b\u202e\x7f" {
		t.Errorf("read back %q, %v", back, err)
	}
}

// full is a disk without room.
type full struct{}

var errFull = errors.New("no space left on device")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestAFullDiskIsTold(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		s := &Session{Out: full{}, Terminal: terminal}
		table := s.Table("A")
		table.Row("x")
		if err := table.Flush(); !errors.Is(err, errFull) {
			t.Errorf("terminal %v: %v", terminal, err)
		}
		if err := s.PrintJSON(1); !errors.Is(err, errFull) {
			t.Errorf("JSON: %v", err)
		}
	}
}

// counter counts what is printed.
type counter struct{ n, most int }

func (c *counter) Write(p []byte) (int, error) {
	c.n, c.most = c.n+len(p), max(c.most, len(p))
	return len(p), nil
}

// A table on a terminal holds no more than a block of its rows.
func TestALongTable(t *testing.T) {
	var out counter
	table := (&Session{Out: &out, Terminal: true}).Table("A")
	for range 10*block + 1 {
		table.Row("x")
	}
	if out.n < 10*block {
		t.Errorf("%d bytes are printed before the end", out.n)
	}
	if err := table.Flush(); err != nil || out.n < 10*block*2 {
		t.Errorf("%d bytes, %v", out.n, err)
	}
}

// A flag with an empty value, of a variable that is not set, is not taken for a flag that is not given.
func TestEmptyFlags(t *testing.T) {
	_, url := redistest.New(t)
	for _, args := range [][]string{{"--redis", ""}, {"--redis", url, "--config", ""}} {
		ran := false
		code, text := run(t.Context(), t, func(*Session) error { ran = true; return nil }, args...)
		if code != Fault || !strings.Contains(text, `is "", expected a value`) || ran {
			t.Errorf("%q: %d %s", args, code, text)
		}
	}
}

// A signal ends a question that nobody answers.
func TestTyped(t *testing.T) {
	for text, want := range map[string]bool{"150\n": true, "15\n": false, "\n": false, "yes\n": false, "": false} {
		if err := typed(t.Context(), strings.NewReader(text), 150); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
	in, typing := io.Pipe()
	defer typing.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := typed(ctx, in, 150); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
