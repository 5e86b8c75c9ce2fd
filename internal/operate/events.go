package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/internal/cli"
	"github.com/troupehq/troupe/internal/flight"
)

func eventsCommand() *cobra.Command {
	var flags cli.Flags
	var kind string
	var follow bool
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what went wrong lately",
		Long: `Events shows the exceptional events of the last days of all processes of troupe, those that are gone
too: failures, retries, crashes and restarts, rescues, fences, stops. Each process keeps its
last 1,000. Jobs that were done are not among them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.Run(cmd, func(ctx context.Context, s *cli.Session) error { return showEvents(ctx, s, kind, follow) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&kind, "kind", "", `only events whose kind has this text in it, like "crashed" or "job"`)
	f.BoolVar(&follow, "follow", false, "go on with those to come")
	flags.Add(cmd)
	return cmd
}

// showEvents prints the events after each other; of new ones those of the last look.
func showEvents(ctx context.Context, s *cli.Session, kind string, follow bool) error {
	seen := map[string]time.Time{} // by process, of the last event
	t := s.Table("AT", "KIND", "JID", "CLASS", "WHERE", "TEXT")
	for {
		records, err := records(ctx, s, kind, seen)
		if err != nil {
			return err
		}
		for _, r := range records {
			if s.JSON {
				err = s.PrintJSON(struct {
					flight.Record
					Process string `json:"process"`
				}{r, r.Process})
			} else {
				t.Row(r.At.UTC().Format("2006-01-02T15:04:05.000Z"), r.Kind, r.JID, r.Class, strings.TrimSuffix(r.Process+" "+cmp.Or(r.Actor, r.Capsule), " "), r.Text)
			}
			if err != nil {
				return err
			}
		}
		if !s.JSON {
			if err := t.Flush(); err != nil {
				return err
			}
		}
		if !follow {
			if len(records) == 0 {
				return cli.Exitf(cli.NotFound, "no such events in the last %s", brief(flight.Life))
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// records are those of all processes after what was seen, by time.
func records(ctx context.Context, s *cli.Session, kind string, seen map[string]time.Time) (all []flight.Record, err error) {
	processes, err := flight.Processes(ctx, s.Redis)
	if err != nil {
		return nil, fmt.Errorf("list the processes with events: %w", err)
	}
	for _, id := range processes {
		records, err := flight.Read(ctx, s.Redis, id)
		if err != nil {
			return nil, fmt.Errorf("read the events of %s: %w", id, err)
		}
		last := seen[id]
		for _, r := range records {
			if r.At.After(last) && strings.Contains(r.Kind, kind) {
				all = append(all, r)
			}
			if r.At.After(seen[id]) {
				seen[id] = r.At
			}
		}
	}
	slices.SortStableFunc(all, func(a, b flight.Record) int { return a.At.Compare(b.At) })
	return all, nil
}
