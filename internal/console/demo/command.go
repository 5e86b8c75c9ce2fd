package demo

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/osproc"
)

// options are the flags of the command.
type options struct {
	length      time.Duration // of the show; 0 means until a signal
	redis       string        // URL; "" means an embedded one
	rate        int           // jobs pushed per second
	concurrency int           // processors of the capsule "default"
	timeout     time.Duration // of the stop
	format      string        // of the log: formatAuto, formatConsole, formatJSON
	color       bool
}

const (
	formatAuto    = "auto" // in place on a terminal, formatConsole elsewhere
	formatConsole = "console"
	formatJSON    = "json"

	maxRate        = 1000
	maxConcurrency = 1000
)

func defaults() options {
	return options{rate: 40, concurrency: 5, timeout: 5 * time.Second, format: formatAuto}
}

// Command returns the command "demo". Its errors are for the user and mean exit
// code 1, except one that has a method ExitCode() int. It answers SIGINT and
// SIGTERM itself while it runs, and stops when the command's context ends.
func Command() *cobra.Command {
	o := defaults()
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See the whole thing at work, with nothing but this program",
		Long: `Demo starts an embedded Redis, the whole supervision tree and a producer that
pushes a mixed load: quick jobs, slow ones, scheduled ones, failing ones that are
retried, a class that panics and one that ignores its cancelled context. On a terminal
it is the screen of troupe top, with figures of its own; elsewhere it writes log lines.

q and Ctrl-C (SIGINT, SIGTERM) run the stop protocol: quiet, wait for running jobs up
to --timeout, requeue what still runs, cancel it, one second of grace, drain
report. Ctrl-Z (SIGTSTP) only quiets: running jobs end and no new ones begin.`,
		Example: `  troupe demo
  troupe demo --for 10s --rate 200 --concurrency 20
  troupe demo --redis redis://localhost:6379/15`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SilenceUsage = true
			if cmd.Flags().Changed("redis") && o.redis == "" {
				return errors.New("--redis is empty, expected a URL; leave the flag out for an embedded redis")
			}
			o.color = os.Getenv("NO_COLOR") == ""
			// before the start, so that a signal during the boot is not fatal
			signals := make(chan os.Signal, 16)
			signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, osproc.Quiet)
			defer signal.Stop(signals)
			s, err := newShow(o, newDisplay(o, cmd.OutOrStdout(), signals))
			if err != nil {
				return err
			}
			// The driver writes to stderr, across the view; the daemon tells what matters of it.
			logging.Disable()
			return s.run(cmd.Context(), signals)
		},
	}
	f := cmd.Flags()
	f.Var(cli.SpanOrNone(&o.length), "for", "end by itself after this time (default: run until Ctrl-C)")
	f.StringVar(&o.redis, "redis", o.redis, "use the Redis at this `URL`, queues demo, demo-critical and demo-batch (default: an embedded one)")
	f.Var(cli.Number(&o.rate, 1, maxRate), "rate", "jobs pushed per second")
	f.VarP(cli.Number(&o.concurrency, 1, maxConcurrency), "concurrency", "c", "processors of the capsule \"default\"")
	f.VarP(cli.Span(&o.timeout), "timeout", "t", "how long the stop waits for running jobs")
	f.Var(cli.OneOf(&o.format, formatAuto, formatConsole, formatJSON), "log", "log lines instead of the live view: console or json; `auto` decides by the output")
	return cmd
}

// exitError is an error with an exit code of its own.
type exitError struct {
	error
	code int
}

// ExitCode is what the process should exit with.
func (e *exitError) ExitCode() int { return e.code }
func (e *exitError) Unwrap() error { return e.error }
