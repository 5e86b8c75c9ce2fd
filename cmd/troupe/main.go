// Command troupe is a Sidekiq-compatible job daemon for people who write no Go,
// and the tools around it: "troupe run" works off the queues with the handlers
// of a configuration file, "troupe push" pushes jobs, "troupe inflight" shows what is
// in progress, "troupe rescue" puts back what dead processes had, "troupe check" reads
// a configuration file and tells what is wrong with it.
//
// It exits with 0 after a clean stop and for -h and -V, with 1 for a bad flag, a
// bad file, and a Redis that cannot be reached or is too old, and with 70 when
// the supervision tree has given up.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	_ "time/tzdata" // for the zones of periodic jobs where the machine has none

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/internal/console/cli"
)

func main() {
	redis.SetLogger(newDriverLog(zerolog.Nop())) // the errors say it all; run sets its own
	os.Exit(execute(context.Background(), rootCommand(), os.Args[1:]))
}

// execute runs one command line and returns the exit code. What is wrong with it
// goes to stderr, each line beginning with the program's name.
func execute(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	code := 1
	if e, ok := errors.AsType[exitCoder](err); ok {
		code = e.ExitCode()
	}
	if text := err.Error(); text != "" {
		for line := range strings.Lines(text) {
			_, _ = fmt.Fprintln(root.ErrOrStderr(), "troupe: "+cli.Line(strings.TrimRight(line, "\n")))
		}
	}
	return code
}

// exitCoder is an error that wants another exit code than 1.
type exitCoder interface {
	error
	ExitCode() int
}

// exitCode is an error without words: what there is to say has been logged.
type exitCode int

func (exitCode) Error() string   { return "" }
func (e exitCode) ExitCode() int { return int(e) }
