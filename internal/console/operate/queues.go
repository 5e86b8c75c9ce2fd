package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/bulk"
	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/words"
)

func queuesCommand(files cli.Files) *cobra.Command {
	over := time.Second
	list := spec{
		use: "list", short: "Show the queues", args: cli.Args(0, 0),
		long: `Queues shows the queues: how many jobs wait, for how long the oldest has, how many come in and go
out a second, how many processes take from it, and whether it is paused. For the rates it looks
twice; they are known where only processes of troupe listen.`,
		flags: func(f *pflag.FlagSet) {
			f.Var(cli.SpanOrNone(&over), "over", "time between the two looks; 0 looks once")
		},
		run: func(ctx context.Context, s *cli.Session, _ []string) error { return listQueues(ctx, s, over) },
	}
	one := func(use, short, change string, run func(ctx context.Context, s *cli.Session, q *inspect.Queue) error) *cobra.Command {
		return spec{use: use + " NAME", short: short, args: cli.Args(1, 1), names: queueNames, change: change, run: func(ctx context.Context, s *cli.Session, args []string) error {
			s.About([]string{"queues", args[0], use})
			return run(ctx, s, s.Inspector.Queue(args[0]))
		}}.command(files)
	}
	all := list
	all.use, all.short = "queues", "Show and steer the queues"
	cmd := all.command(files)
	cmd.AddCommand(
		list.command(files),
		one("show", "Show one queue and its oldest jobs", "", showQueue),
		one("pause", "Take no jobs from a queue any more", "pausing a queue", func(ctx context.Context, s *cli.Session, q *inspect.Queue) error {
			warnUnknown(ctx, s, q.Name)
			return said(s, q.SetPaused(ctx, true), map[string]any{"queue": q.Name, "paused": true}, "%s is paused: within seconds nothing is taken from it, what runs goes on, and jobs can be pushed", q.Name)
		}),
		also("resume", one("unpause", "Take jobs from a paused queue again (also: resume)", "unpausing a queue", func(ctx context.Context, s *cli.Session, q *inspect.Queue) error {
			warnUnknown(ctx, s, q.Name)
			return said(s, q.SetPaused(ctx, false), map[string]any{"queue": q.Name, "paused": false}, "%s is not paused", q.Name)
		})),
		clearCommand(files),
	)
	return cmd
}

// also gives a command another name.
func also(name string, cmd *cobra.Command) *cobra.Command {
	cmd.Aliases = append(cmd.Aliases, name)
	return cmd
}

// warnUnknown warns if nothing is known of a queue but perhaps that it is paused: its name may be
// misspelled. What cannot be read does not matter here.
func warnUnknown(ctx context.Context, s *cli.Session, name string) {
	if used, err := s.Used(ctx, name); err == nil && !used {
		_, _ = fmt.Fprintf(s.Err, "troupe: warning: no queue %s is known: nothing was ever pushed to it, and no process listens to it\n", cli.Line(strconv.Quote(name)))
	}
}

func clearCommand(files cli.Files) *cobra.Command {
	var yes bool
	return spec{
		use: "clear NAME", short: "Delete all jobs of a queue", args: cli.Args(1, 1), names: queueNames, change: "clearing a queue",
		long: `Clear deletes all jobs that wait in a queue. On a terminal it wants their number typed, or --yes; elsewhere
it wants --yes for more than 100. Jobs of the queue that limits hold stay.`,
		flags: func(f *pflag.FlagSet) { f.BoolVar(&yes, "yes", false, "do not ask") },
		run: func(ctx context.Context, s *cli.Session, args []string) error {
			s.About([]string{"queues", args[0], "clear"})
			row, err := known(ctx, s, args[0])
			if err != nil {
				return err
			}
			if err := s.Confirm(ctx, cli.Ask{Yes: yes, N: row.Waiting, Always: true}, "delete %s of the queue %s", words.Plural(row.Waiting, "job"), row.Name); err != nil {
				return err
			}
			n, err := s.Inspector.Queue(row.Name).Clear(ctx)
			if held := heldOf(ctx, s, row.Name); held > 0 {
				s.Note("limits hold %s of it, which stay: jobs delete held --queue %s", words.Plural(held, "job"), words.Word(row.Name))
			}
			return said(s, err, bulk.Counts{Done: int(n)}, "deleted %s", words.Plural(n, "job"))
		},
	}.command(files)
}

// heldOf is how many jobs of a queue limits hold; what cannot be read does not matter here.
func heldOf(ctx context.Context, s *cli.Session, queue string) (n int64) {
	for e, err := range s.Inspector.HeldJobs(ctx) {
		if err == nil && e.Queue == queue {
			n++
		}
	}
	return n
}

func listQueues(ctx context.Context, s *cli.Session, over time.Duration) error {
	var sampler fleet.Sampler
	var rows []fleet.Queue
	if s.ReadOnly {
		over = 0 // what processes have told may be old
	}
	for look := range 2 {
		if look > 0 && over > 0 && len(rows) > 0 {
			select {
			case <-time.After(over):
			case <-ctx.Done():
				return ctx.Err()
			}
		} else if look > 0 {
			break
		}
		processes, err := s.Processes(ctx)
		if err == nil && over > 0 {
			asked := false
			if asked, err = fresh(ctx, s, processes); asked {
				processes, err = s.Processes(ctx)
			} else {
				over = 0
			}
		}
		if err == nil {
			rows, err = sampler.Queues(ctx, s.Fleet, processes)
		}
		if err != nil {
			return err
		}
	}
	return cli.Rows(s, "NAME WAITING LATENCY IN/S OUT/S LISTENERS PAUSED", "nothing was ever pushed", rows, func(q fleet.Queue) []string {
		paused := ""
		if q.Paused {
			paused = "paused"
		}
		return []string{q.Name, number(q.Waiting), words.Brief(latency(q)), rate(q.In), rate(q.Out), number(q.Listeners), paused}
	})
}

func rate(r *float64) string {
	if r == nil {
		return ""
	}
	return strconv.FormatFloat(*r, 'f', 1, 64)
}

func latency(q fleet.Queue) time.Duration { return time.Duration(q.Latency * float64(time.Second)) }

// oldest is how many jobs a queue is shown with.
const oldest = 10

// known is a queue that there is.
func known(ctx context.Context, s *cli.Session, name string) (fleet.Queue, error) {
	row, err := s.Queue(ctx, name)
	if errors.Is(err, inspect.ErrNotFound) {
		err = cli.Exitf(cli.NotFound, "no queue %q is known", name)
	}
	return row, err
}

func showQueue(ctx context.Context, s *cli.Session, q *inspect.Queue) error {
	row, err := known(ctx, s, q.Name)
	switch {
	case err != nil:
		return err
	case s.JSON:
		return s.PrintJSON(row)
	}
	_, _ = fmt.Fprintf(s.Out, "%s: %s waiting, the oldest for %s, listeners: %d, paused: %v\n", cli.Line(q.Name), words.Count(row.Waiting), words.Brief(latency(row)), row.Listeners, row.Paused)
	jobs, _, err := q.Page(ctx, int(max(0, row.Waiting-oldest)), oldest)
	if err != nil {
		return err
	}
	slices.Reverse(jobs)
	t := newJobTable(ctx, s)
	for _, j := range jobs {
		t.row(bulk.Since(&j.JobRecord), 0, &j.JobRecord)
	}
	return t.Flush()
}
