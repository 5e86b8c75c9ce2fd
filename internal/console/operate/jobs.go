package operate

import (
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/bulk"
	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/words"
)

func jobsCommand(files cli.Files) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "Show jobs and act on them",
		Long: `Jobs shows jobs and acts on them, one by one or by a filter. SET is retry, scheduled or dead. The
commands list, export, delete and kill also take queue:NAME, list, show, delete and kill take held (jobs that limits
hold), release takes only that, list takes running, and move takes only queue:NAME. Every action names a job by its exact bytes: what somebody else has taken meanwhile is
gone, and nothing is lost or done twice.`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(listCommand(files), showCommand(files), cancelCommand(files), exportCommand(files), importCommand(files))
	for _, a := range bulk.Actions {
		cmd.AddCommand(actionCommand(files, a))
	}
	return cmd
}

// setOf is a set by its name; more are other places that would do.
func setOf(s *cli.Session, name string, more ...string) (*inspect.JobSet, error) {
	if set := bulk.SetOf(s.Inspector, name); set != nil {
		return set, nil
	}
	return nil, cli.Exitf(cli.Fault, "got %q, expected %s", name, words.OneOf(name, append(slices.Clone(bulk.Sets), more...)...))
}

func listCommand(files cli.Files) *cobra.Command {
	var filter filterFlags
	limit := 50
	return spec{
		use: "list SET|held|running|queue:NAME", short: "List jobs", args: cli.Args(1, 1), words: append(slices.Clone(bulk.Sets), bulk.Held, "running"), names: queueKeys,
		long:    "List shows the jobs of a set, the next one due or the last dead first, of a queue, the oldest last, those that limits hold, with the time since when, or those that run.",
		example: "  troupe jobs list retry --error 502 --failed-since 1h\n  troupe jobs list queue:critical --limit 10",
		flags: func(f *pflag.FlagSet) {
			filter.add(f)
			f.Var(cli.Number(&limit, 0, 0), "limit", "at most so many; 0 is all")
		},
		run: func(ctx context.Context, s *cli.Session, args []string) error {
			f, err := filter.read(s, args[0], time.Now())
			if err != nil {
				return err
			}
			return list(ctx, s, args[0], &f, limit)
		},
	}.command(files)
}

// list walks through jobs, and holds no more than a page of them.
func list(ctx context.Context, s *cli.Session, of string, f *bulk.Filter, limit int) error {
	if of == "running" {
		processes, err := s.Processes(ctx)
		if err == nil {
			_, err = fresh(ctx, s, processes)
		}
		if err != nil {
			return err
		}
	}
	t, n := newJobTable(ctx, s), 0
	if of == "running" {
		works, err := s.Inspector.Works(ctx)
		if err != nil {
			return err
		}
		for _, w := range works {
			if f.Match(&w.Job, w.RunAt) && (limit <= 0 || n < limit) {
				t.add(jobRow{w.RunAt, 0, w.Progress, &w.Job})
				n++
			}
		}
	} else if err := walk(ctx, s, of, (*inspect.Queue).Each, func(r *inspect.JobRecord, when time.Time, score float64) (more bool) {
		if f.Match(r, when) {
			t.row(when, score, r)
			n++
		}
		return t.err == nil && (limit <= 0 || n < limit)
	}); err != nil {
		return err
	}
	if err := t.Flush(); err != nil || n > 0 {
		return err
	}
	return noJobs(ctx, s, of)
}

// noJobs says that there are no such jobs, and of a queue of another system that they would not be seen.
func noJobs(ctx context.Context, s *cli.Session, of string) error {
	if name, ok := strings.CutPrefix(of, "queue:"); ok {
		if row, err := s.Inspector.Queue(name).Summary(ctx); err != nil || row.Size == 0 {
			if elsewhere, ok := errors.AsType[*fleet.ElsewhereError](s.Elsewhere(ctx, name)); ok {
				return &cli.ExitError{Code: cli.Refused, Err: elsewhere}
			}
		}
	}
	s.Note("no such jobs in %s", of)
	return nil
}

// order iterates over a queue in one of its orders.
type order func(*inspect.Queue, context.Context) iter.Seq2[*inspect.QueuedJob, error]

// walk calls each for the jobs of a set, of a queue or those that run, until it returns false.
func walk(ctx context.Context, s *cli.Session, of string, in order, each func(r *inspect.JobRecord, when time.Time, score float64) bool) error {
	if name, ok := strings.CutPrefix(of, "queue:"); ok {
		for j, err := range in(s.Inspector.Queue(name), ctx) {
			if err != nil {
				return err
			}
			if !each(&j.JobRecord, bulk.Since(&j.JobRecord), 0) {
				return nil
			}
		}
		return nil
	}
	if of == "running" {
		works, err := s.Inspector.Works(ctx)
		for _, w := range works {
			if !each(&w.Job, w.RunAt, 0) {
				break
			}
		}
		return err
	}
	var entries iter.Seq2[*inspect.SortedEntry, error]
	if of == bulk.Held {
		entries = s.Inspector.HeldJobs(ctx)
	} else if set, err := setOf(s, of, "running", bulk.Held, "queue:NAME"); err != nil {
		return err
	} else if entries = set.Each(ctx); of != "dead" {
		entries = set.Fetch(ctx, math.Inf(-1), math.Inf(1), "") // the next one due first
	}
	for e, err := range entries {
		if err != nil {
			return err
		}
		if !each(&e.JobRecord, bulk.SortedAt(e), e.Score) {
			return nil
		}
	}
	return nil
}
