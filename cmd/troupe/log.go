package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/rs/zerolog"
	"golang.org/x/term"
)

// newLogger writes to w in format: "json", "console", or "" for the one that
// fits: console on a terminal, JSON elsewhere.
func newLogger(w io.Writer, format string, level zerolog.Level) zerolog.Logger {
	f, isFile := w.(*os.File)
	terminal := isFile && term.IsTerminal(int(f.Fd()))
	if format == "console" || format == "" && terminal {
		w = zerolog.ConsoleWriter{
			Out: w, TimeFormat: "15:04:05.000", NoColor: !terminal || os.Getenv("NO_COLOR") != "",
		}
	}
	return zerolog.New(w).Level(level).With().Timestamp().Logger()
}

// driverLog takes the lines that go-redis would write to stderr by itself: about
// every failed connection, while the daemon tells once that Redis is away.
type driverLog struct{ log zerolog.Logger }

func (d driverLog) Printf(_ context.Context, format string, v ...any) {
	d.log.Debug().Str("text", fmt.Sprintf(format, v...)).Msg("redis driver")
}
