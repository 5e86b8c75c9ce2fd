package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/test/harness"
)

func TestTheErrorOfAJobIsCutInALine(t *testing.T) {
	for name, tt := range map[string]struct {
		text, want string
		bytes      int // 0: no such field
	}{
		"short":              {"boom", "boom", 0},
		"empty":              {"", "", 0},
		"just fits":          {strings.Repeat("x", 1024), strings.Repeat("x", 1024), 0},
		"a byte too long":    {strings.Repeat("x", 1025), strings.Repeat("x", 1024), 1025},
		"within a rune of 2": {"x" + strings.Repeat("é", 600), "x" + strings.Repeat("é", 511), 1201},
		"within a rune of 4": {"xyz" + strings.Repeat("😀", 600), "xyz" + strings.Repeat("😀", 255), 2403},
		"no runes at all":    {strings.Repeat("\x80", 2000), strings.Repeat("\ufffd", 1020), 2000},
		"megabytes":          {strings.Repeat("ab", 1<<20), strings.Repeat("ab", 512), 2 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			log := zerolog.New(&out)
			Err(log.Error(), errors.New(tt.text)).Msg("job failed")
			var line struct {
				Error string
				Bytes int `json:"error_bytes"`
			}
			harness.OK(t, json.Unmarshal(out.Bytes(), &line))
			if line.Error != tt.want || line.Bytes != tt.bytes || !utf8.ValidString(line.Error) {
				t.Errorf("%d bytes of %d: %.60q…\nwant %d of %d: %.60q…", len(line.Error), line.Bytes, line.Error, len(tt.want), tt.bytes, tt.want)
			}
		})
	}
}

func TestALineWithoutErrorOrNotWrittenAsksNothing(t *testing.T) {
	var out bytes.Buffer
	log := zerolog.New(&out).Level(zerolog.WarnLevel)
	Err(log.Warn(), nil).Msg("fine")
	if got := out.String(); got != `{"level":"warn","message":"fine"}`+"\n" {
		t.Errorf("line %s", got)
	}
	Err(log.Info(), costly{t}).Msg("not written")
}

type costly struct{ t *testing.T }

func (c costly) Error() string { c.t.Error("asked for its text"); return "" }

func TestTheLevelOfAJob(t *testing.T) {
	for raw, want := range map[string]zerolog.Level{
		`"debug"`: zerolog.DebugLevel, `"info"`: zerolog.InfoLevel, `"warn"`: zerolog.WarnLevel, `"error"`: zerolog.ErrorLevel,
		`"fatal"`: zerolog.FatalLevel, `"DEBUG"`: zerolog.DebugLevel, `0`: zerolog.DebugLevel, `3`: zerolog.ErrorLevel, `4`: zerolog.FatalLevel,
	} {
		p := harness.Must(troupe.ParsePayload([]byte(`{"class":"A","log_level":` + raw + `}`)))(t)
		if got, ok := Level(p); !ok || got != want {
			t.Errorf("%s is %v, %v", raw, got, ok)
		}
	}
	for _, field := range []string{``, `,"log_level":null`, `,"log_level":""`, `,"log_level":"loud"`, `,"log_level":5`, `,"log_level":-1`, `,"log_level":true`, `,"log_level":["debug"]`, `,"log_level":"trace"`} {
		p := harness.Must(troupe.ParsePayload([]byte(`{"class":"A"` + field + `}`)))(t)
		if got, ok := Level(p); ok {
			t.Errorf("%s is %v", field, got)
		}
	}
}
