package actors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/rs/zerolog"
)

// Slog makes a Config.Logger that writes to l. Fields become attributes, in their order; an
// error is a string. The level is the lowest that l has enabled now: a level that is lowered
// later has no effect. It costs some microseconds more a line than zerolog itself.
func Slog(l *slog.Logger) zerolog.Logger {
	h, level := l.Handler(), zerolog.Disabled
	for _, z := range []zerolog.Level{zerolog.ErrorLevel, zerolog.WarnLevel, zerolog.InfoLevel, zerolog.DebugLevel, zerolog.TraceLevel} {
		if h.Enabled(context.Background(), slogLevel(z)) {
			level = z
		}
	}
	return zerolog.New(slogWriter{h}).Level(level)
}

// slogWriter hands the lines of a zerolog.Logger to a handler.
type slogWriter struct{ h slog.Handler }

// Write is for lines without a level.
func (w slogWriter) Write(line []byte) (int, error) { return w.WriteLevel(zerolog.InfoLevel, line) }

// WriteLevel implements zerolog.LevelWriter.
func (w slogWriter) WriteLevel(level zerolog.Level, line []byte) (int, error) {
	ctx := context.Background()
	if !w.h.Enabled(ctx, slogLevel(level)) {
		return len(line), nil
	}
	record := slog.NewRecord(time.Now(), slogLevel(level), "", 0)
	if err := addFields(&record, line); err != nil {
		record.AddAttrs(slog.String("line", string(bytes.TrimSpace(line))), slog.String("problem", err.Error()))
	}
	if err := w.h.Handle(ctx, record); err != nil {
		return 0, err
	}
	return len(line), nil
}

// addFields reads the object of a line in its order; encoding/json's map has none.
func addFields(record *slog.Record, line []byte) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return errors.Join(errors.New("no JSON object"), err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value any
		if err := d.Decode(&value); err != nil {
			return err
		}
		key, _ := name.(string)
		switch text, isText := value.(string); {
		case key == zerolog.LevelFieldName || key == zerolog.TimestampFieldName: // the record has its own
		case key == zerolog.MessageFieldName && isText:
			record.Message = text
		default:
			record.AddAttrs(slog.Any(key, plain(value)))
		}
	}
	if _, err := d.Token(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// plain is a number as slog writes it; other values are as they were read.
func plain(value any) any {
	n, ok := value.(json.Number)
	if !ok {
		return value
	}
	if i, err := n.Int64(); err == nil {
		return i
	}
	if f, err := n.Float64(); err == nil {
		return f
	}
	return n.String()
}

func slogLevel(level zerolog.Level) slog.Level {
	switch {
	case level <= zerolog.TraceLevel:
		return slog.LevelDebug - 4
	case level == zerolog.DebugLevel:
		return slog.LevelDebug
	case level == zerolog.InfoLevel || level == zerolog.NoLevel:
		return slog.LevelInfo
	case level == zerolog.WarnLevel:
		return slog.LevelWarn
	}
	return slog.LevelError
}
