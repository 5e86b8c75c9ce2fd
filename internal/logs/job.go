package logs

import (
	"strings"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/words"
)

// Seconds adds a span of time; whole microseconds are written in half the time that
// zerolog takes for a float.
func Seconds(line *zerolog.Event, key string, s float64) *zerolog.Event {
	var buf [24]byte
	return line.RawJSON(key, scores.Append(buf[:0], s))
}

// Err adds err to a line, cut to words.MaxHead bytes; then "error_bytes" is its full length.
func Err(line *zerolog.Event, err error) *zerolog.Event {
	if err == nil || !line.Enabled() {
		return line
	}
	text := err.Error()
	short := words.Head(text)
	if len(short) == len(text) {
		return line.Err(err) // as the program's zerolog.ErrorMarshalFunc wants it
	}
	return line.Str(zerolog.ErrorFieldName, short).Int("error_bytes", len(text))
}

// Level reads the field "log_level": the level at which a job logs while it
// runs, in place of the daemon's. Like Sidekiq 8 it takes names in any case and
// the numbers of Ruby's Logger; anything else is no level.
func Level(p *troupe.Payload) (level zerolog.Level, ok bool) {
	raw, found := p.Get("log_level")
	if !found {
		return zerolog.NoLevel, false
	}
	switch strings.ToLower(strings.Trim(string(raw), `"`)) {
	case "debug", "0":
		return zerolog.DebugLevel, true
	case "info", "1":
		return zerolog.InfoLevel, true
	case "warn", "2":
		return zerolog.WarnLevel, true
	case "error", "3":
		return zerolog.ErrorLevel, true
	case "fatal", "4":
		return zerolog.FatalLevel, true
	}
	return zerolog.NoLevel, false
}
