package operate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/console/explain"
)

func explainCommand(files cli.Files) *cobra.Command {
	var every time.Duration
	return spec{
		use: "explain JID|NAME|BATCH", short: "Tell where a job is, why, and what happens next", args: cli.Args(1, 1), names: periodicNames,
		long: `Explain looks for a job among those that run and those in progress, in the sets and in the queues, and
tells why it is there: its queue is paused, nobody listens, its process has died, it has failed and
how. What the flight recorders of the processes know of it is its timeline. Whole sets and queues are
searched, which takes seconds for a million jobs; the last line says which. Of a job that has ended it
tells how, if that is kept. Of the name of a periodic
job it shows what periodic show does, and of the ID of a batch what batches show does.`,
		flags: func(f *pflag.FlagSet) { again(f, &every) },
		run: func(ctx context.Context, s *cli.Session, args []string) error {
			return watch(ctx, s, every, func() error {
				if p, err := s.PeriodicJob(ctx, args[0], ""); err == nil { // else it is a job's; what is wrong with Redis is told there
					return showPeriodic(ctx, s, p)
				}
				if _, err := s.Inspector.Batch(ctx, args[0]); err == nil {
					return showBatch(ctx, s, args[0])
				}
				return explainJob(ctx, s, args[0])
			})
		},
	}.command(files)
}

func explainJob(ctx context.Context, s *cli.Session, jid string) error {
	processes, err := s.Processes(ctx)
	if err == nil {
		_, err = fresh(ctx, s, processes)
	}
	if err != nil {
		return err
	}
	x, err := explain.Job(ctx, s.Redis, jid, s.Mask)
	if err != nil {
		return err
	}
	if s.JSON {
		err = s.PrintJSON(x)
	} else {
		place := x.Place
		switch {
		case place == "" && x.Result != nil:
			place = "ended"
		case place == "":
			place = "nowhere"
		}
		_, _ = fmt.Fprintf(s.Out, "%s: %s\n", cli.Line(jid), cli.Line(place))
		for _, r := range x.Why {
			_, _ = fmt.Fprintf(s.Out, "  %s\n", cli.Line(r.Text))
		}
		_, _ = fmt.Fprintf(s.Out, "Next: %s\n", cli.Line(x.Next))
		for _, step := range x.Timeline {
			_, _ = fmt.Fprintf(s.Out, "  %s  %s  (%s)\n", step.At.Format("2006-01-02T15:04:05.000Z"), cli.Line(step.Event), cli.Line(step.Source))
		}
		_, err = fmt.Fprintf(s.Out, "Searched: %s\n", cli.Line(strings.Join(x.Searched, ", ")))
	}
	if err == nil && x.Place == "" && x.Result == nil {
		return &cli.ExitError{Code: cli.NotFound}
	}
	return err
}
