package actors_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actors"
)

// withoutTime is a handler whose lines are the same at each run.
func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey && len(groups) == 0 {
		return slog.Attr{}
	}
	return a
}

func ExampleSlog() {
	l := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	logger := actors.Slog(l.With("app", "shop")) // for Config.Logger
	logger.Warn().Str("queue", "mail").Int("jobs", 3).Err(errors.New("no such host")).Msg("redis is away")
	// Output: level=WARN msg="redis is away" app=shop queue=mail jobs=3 error="no such host"
}

func TestSlogKeepsLevelsAndFields(t *testing.T) {
	var out bytes.Buffer
	level := new(slog.LevelVar)
	level.Set(slog.LevelWarn)
	l := actors.Slog(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: level, ReplaceAttr: withoutTime})))
	l.Info().Msg("not enabled")
	if level := l.GetLevel(); level != zerolog.WarnLevel {
		t.Error("the level is not that of the handler")
	}
	l = l.With().Timestamp().Str("capsule", "default").Logger()
	l.Error().Uint64("big", 1<<60).Float64("wait", 0.5).Strs("queues", []string{"a", "b"}).Bool("away", true).Msg("line\nbreak")
	l.Warn().Interface("nested", map[string]int{"n": 1}).Send()
	level.Set(slog.LevelError) // raised: takes effect
	l.Warn().Msg("not any more")
	want := `{"level":"ERROR","msg":"line\nbreak","capsule":"default","big":1152921504606846976,"wait":0.5,"queues":["a","b"],"away":true}
{"level":"WARN","msg":"","capsule":"default","nested":{"n":1}}
`
	if got := out.String(); got != want {
		t.Errorf("wrote\n%s, want\n%s", got, want)
	}
	if strings.Contains(out.String(), "problem") {
		t.Error("a line could not be read")
	}
}
