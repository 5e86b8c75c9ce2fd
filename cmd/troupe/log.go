package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/term"

	"github.com/troupehq/troupe/internal/logs"
	"github.com/troupehq/troupe/internal/words"
)

// newLogger writes to w in format: "json", "console", or "" for the one that
// fits: console on a terminal, JSON elsewhere. Lines of JSON below error are
// written together, at most 100 ms late, at warn 1 ms, and by flush. Nobody who logs waits for
// a reader that has stopped.
func newLogger(w io.Writer, format string, level zerolog.Level) (log zerolog.Logger, flush func()) {
	buf := logs.New(w)
	f, isFile := w.(*os.File)
	terminal := isFile && term.IsTerminal(int(f.Fd()))
	if format == "console" || format == "" && terminal {
		buf = logs.Singly(zerolog.LevelWriterAdapter{Writer: zerolog.ConsoleWriter{
			Out: w, TimeFormat: "15:04:05.000", NoColor: !terminal || os.Getenv("NO_COLOR") != "",
		}})
	}
	return zerolog.New(buf).Level(level).With().Timestamp().Logger(), buf.Flush
}

// driverLog takes the lines that go-redis would write to stderr by itself. They are warnings, three a
// minute at most and the others at debug: go-redis tells of every failed connection, while the daemon
// tells once that Redis is away.
type driverLog struct {
	log  zerolog.Logger
	loud zerolog.Sampler
}

func newDriverLog(log zerolog.Logger) driverLog {
	return driverLog{log.With().Str("component", "go-redis").Logger(), &zerolog.BurstSampler{Burst: 3, Period: time.Minute}}
}

func (d driverLog) Printf(_ context.Context, format string, v ...any) {
	level := zerolog.DebugLevel
	if d.loud.Sample(zerolog.WarnLevel) {
		level = zerolog.WarnLevel
	}
	d.log.WithLevel(level).Str("text", words.Text(fmt.Sprintf(format, v...))).Msg("redis driver")
}
