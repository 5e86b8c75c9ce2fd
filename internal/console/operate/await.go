package operate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/words"
)

var errAwaited = errors.New("the time is over")

func awaitCommand(files cli.Files) *cobra.Command {
	timeout := time.Minute
	return spec{
		use: "await JID", short: "Wait for the end of a job, and print its result", args: cli.Args(1, 1),
		long: `Await waits until a job has ended, and prints its result as JSON: null for none. It does not poll. It hears of
jobs whose end is kept: those of a class with result_for, those pushed so, and those that set a result. Of others it
hears nothing, so it waits for a minute if --timeout does not say for how long.
The exit code is 0 if the job is done, 3 if it has ended otherwise (dead, dropped, expired, deleted or cancelled), 2 if the
time is over and nothing is known of its end, and 4 on a Redis Cluster, where no results are kept.`,
		example: "  troupe await \"$(troupe push ResizeJob cat.png)\" --timeout 5m",
		flags: func(f *pflag.FlagSet) {
			f.VarP(cli.Span(&timeout), "timeout", "t", "for how long at most")
		},
		run: func(ctx context.Context, s *cli.Session, args []string) error {
			jid := args[0]
			c := client.New(s.Redis)
			defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
			call, stop := context.WithTimeoutCause(ctx, timeout, errAwaited)
			defer stop()
			result, err := c.Await(call, jid)
			ended, wrong := new(client.NotDoneError), new(client.FieldError)
			switch {
			case errors.As(err, &ended):
				ended.Message = s.Mask.Text(ended.Message)
				if s.JSON {
					row := map[string]any{"jid": jid, "outcome": ended.Outcome, "at": moment(ended.At)}
					if ended.Class != "" {
						row["error_class"], row["error_message"] = ended.Class, ended.Message
					}
					if err := s.PrintJSON(row); err != nil {
						return err
					}
				}
				return &cli.ExitError{Code: cli.Partly, Err: ended}
			case errors.As(err, &wrong):
				return &cli.ExitError{Code: cli.Refused, Err: err}
			case errors.Is(err, errAwaited):
				return cli.Exitf(cli.NotFound, "nothing is known of the end of the job %s after %s; troupe explain %s tells where it is", words.Text(jid), words.Few(timeout), words.Word(jid))
			case err != nil:
				return err
			}
			result = s.Mask.Result(result)
			if s.JSON {
				return s.PrintJSON(map[string]any{"jid": jid, "outcome": "done", "result": result})
			}
			_, err = fmt.Fprintln(s.Out, cli.Line(string(result)))
			return err
		},
	}.command(files)
}
