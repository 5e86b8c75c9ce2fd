package operate

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/console/doctor"
)

func doctorCommand(files cli.Files) *cobra.Command {
	return spec{
		use: "doctor", short: "Look for what endangers jobs", args: cli.Args(0, 0),
		long: `Doctor audits a Redis, and changes nothing: eviction, persistence, version, rights, time-outs, round
trips, keys of a wrong type, dead processes and what they had, queues that nobody listens on, jobs
that are overdue, clocks, members that are no jobs, limits that hold jobs for long, classes that have no handler or only fail, periodic jobs that push
nothing or whose jobs nobody runs. What is most dangerous comes first. It exits with 3 if
there is a danger or a warning. What it may not look at it tells.`,
		run: func(ctx context.Context, s *cli.Session, _ []string) error {
			r, err := doctor.Examine(ctx, s.Redis)
			if err != nil {
				return err
			}
			if s.JSON {
				err = s.PrintJSON(r)
			} else {
				for _, f := range r.Findings {
					_, _ = fmt.Fprintf(s.Out, "%s: %s: %s\n  do: %s\n", f.Severity, f.Code, cli.Line(f.Text), cli.Line(f.Do))
				}
				for _, u := range r.Unchecked {
					_, _ = fmt.Fprintf(s.Out, "not checked: %s\n", cli.Line(u))
				}
				_, err = fmt.Fprintf(s.Out, "checked: %s\n", strings.Join(r.Checked, ", "))
			}
			if err == nil && !r.Healthy {
				return &cli.ExitError{Code: cli.Partly}
			}
			return err
		},
	}.command(files)
}
