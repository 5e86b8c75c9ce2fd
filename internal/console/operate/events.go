package operate

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/flight"
	"github.com/troupehq/troupe/internal/words"
)

func eventsCommand(files cli.Files) *cobra.Command {
	var kind string
	var follow bool
	return spec{
		use: "events", short: "Show what went wrong lately", args: cli.Args(0, 0),
		long: `Events shows the exceptional events of the last days of all processes of troupe, those that are gone
too: failures, retries, crashes and restarts, rescues, fences, stops. Each process keeps its
last 1,000. Jobs that were done are not among them.`,
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&kind, "kind", "", `only events whose kind has this text in it, like "crashed" or "job"`)
			f.BoolVar(&follow, "follow", false, "go on with those to come")
		},
		run: func(ctx context.Context, s *cli.Session, _ []string) error { return showEvents(ctx, s, kind, follow) },
	}.command(files)
}

// showEvents prints the events after each other; of new ones those of the last look.
func showEvents(ctx context.Context, s *cli.Session, kind string, follow bool) error {
	seen := map[string]time.Time{}
	head := "AT KIND JID CLASS WHERE TEXT"
	for {
		records, err := flight.Since(ctx, s.Redis, "", seen)
		records = slices.DeleteFunc(flight.Fold(records), func(r flight.Record) bool { return !strings.Contains(r.Kind, kind) })
		if err == nil && (len(records) > 0 || !follow) {
			err = cli.Rows(s, head, "no such events in the last "+words.Brief(flight.Life), s.Mask.Records(records), func(r flight.Record) []string {
				return []string{r.At.UTC().Format("2006-01-02T15:04:05.000Z"), r.Kind, r.JID, r.Class, strings.TrimSuffix(r.Process+" "+cmp.Or(r.Actor, r.Capsule), " "), r.Text}
			})
			head = ""
		}
		if err != nil || !follow {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}
