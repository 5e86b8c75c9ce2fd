package operate

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/cli"
)

// queue is a row of queues.
type queue struct {
	Name      string  `json:"name"`
	Waiting   int64   `json:"waiting"`
	Latency   float64 `json:"latency_s"`
	Growth    float64 `json:"growth_per_s"` // what came less what went
	Listeners int     `json:"listeners"`    // processes that are not quiet
	Paused    bool    `json:"paused"`
}

func queuesCommand() *cobra.Command {
	var flags cli.Flags
	var over time.Duration
	list := func(ctx context.Context, s *cli.Session) error { return listQueues(ctx, s, over) }
	cmd := &cobra.Command{
		Use:   "queues",
		Short: "Show and steer the queues",
		Long: `Queues shows the queues: how many jobs wait, for how long the oldest has, by how many
jobs a second the queue grows, how many processes take from it, and whether it is
paused. For the growth it looks twice.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return flags.Run(cmd, list) },
	}
	cmd.Flags().DurationVar(&over, "over", time.Second, "time between the two looks; 0 looks once")
	flags.Add(cmd)
	cmd.AddCommand(
		queueCommand("show NAME", "Show one queue and its oldest jobs", "", func(ctx context.Context, s *cli.Session, q *inspect.Queue) error {
			return showQueue(ctx, s, q)
		}),
		queueCommand("pause NAME", "Take no jobs from a queue any more", "pausing a queue", func(ctx context.Context, s *cli.Session, q *inspect.Queue) error {
			return said(s, q.SetPaused(ctx, true), "%s is paused: what runs goes on, and jobs can be pushed", q.Name)
		}),
		queueCommand("unpause NAME", "Take jobs from a paused queue again", "unpausing a queue", func(ctx context.Context, s *cli.Session, q *inspect.Queue) error {
			return said(s, q.SetPaused(ctx, false), "%s is not paused", q.Name)
		}),
		clearCommand(),
	)
	return cmd
}

func said(s *cli.Session, err error, format string, args ...any) error {
	if err != nil || s.JSON {
		return err
	}
	_, err = fmt.Fprintf(s.Out, format+"\n", args...)
	return err
}

// queueCommand makes a command for one queue; change says what it changes.
func queueCommand(use, short, change string, run func(ctx context.Context, s *cli.Session, q *inspect.Queue) error) *cobra.Command {
	cmd := command(use, short, "", cobra.ExactArgs(1), func(ctx context.Context, s *cli.Session, args []string) error {
		if change != "" {
			if err := s.Change(change); err != nil {
				return err
			}
		}
		return run(ctx, s, s.Inspector.Queue(args[0]))
	})
	return cmd
}

func clearCommand() *cobra.Command {
	var flags cli.Flags
	var yes bool
	cmd := &cobra.Command{
		Use:   "clear NAME",
		Short: "Delete all jobs of a queue",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return flags.Run(cmd, func(ctx context.Context, s *cli.Session) error {
				if err := s.Change("clearing a queue"); err != nil {
					return err
				}
				q := s.Inspector.Queue(args[0])
				summary, err := q.Summary(ctx)
				if err != nil {
					return err
				}
				if err := s.Confirm(yes, summary.Size, "delete %d jobs of the queue %s", summary.Size, q.Name); err != nil {
					return err
				}
				n, err := q.Clear(ctx)
				if s.JSON && err == nil {
					return s.PrintJSON(map[string]any{"done": n})
				}
				return said(s, err, "deleted %d jobs", n)
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	flags.Add(cmd)
	return cmd
}

// listeners counts the processes that take from each queue.
func listeners(processes []*inspect.Process) map[string]int {
	n := make(map[string]int)
	for _, p := range processes {
		for _, q := range p.Queues {
			if !p.Stopping {
				n[q]++
			}
		}
	}
	return n
}

func listQueues(ctx context.Context, s *cli.Session, over time.Duration) error {
	all, err := s.Inspector.Queues(ctx)
	if err != nil {
		return err
	}
	before := make(map[string]int64)
	if over > 0 && len(all) > 0 {
		for _, q := range all {
			before[q.Name] = q.Size
		}
		select {
		case <-time.After(over):
		case <-ctx.Done():
			return ctx.Err()
		}
		if all, err = s.Inspector.Queues(ctx); err != nil {
			return err
		}
	}
	processes, err := s.Inspector.Processes(ctx)
	if err != nil {
		return err
	}
	listen := listeners(processes)
	if len(all) == 0 {
		return cli.Exitf(cli.NotFound, "nothing was ever pushed")
	}
	t := s.Table("NAME", "WAITING", "LATENCY", "GROWTH/S", "LISTENERS", "PAUSED")
	for _, q := range all {
		row := queue{Name: q.Name, Waiting: q.Size, Latency: seconds(q.Latency), Listeners: listen[q.Name], Paused: q.Paused}
		if n, ok := before[q.Name]; ok {
			row.Growth = float64(q.Size-n) / over.Seconds()
		}
		if s.JSON {
			if err := s.PrintJSON(row); err != nil {
				return err
			}
			continue
		}
		paused := ""
		if row.Paused {
			paused = "paused"
		}
		t.Row(row.Name, number(row.Waiting), brief(q.Latency), strconv.FormatFloat(row.Growth, 'f', -1, 64), number(row.Listeners), paused)
	}
	if s.JSON {
		return nil
	}
	return t.Flush()
}

// oldest is how many jobs a queue is shown with.
const oldest = 10

func showQueue(ctx context.Context, s *cli.Session, q *inspect.Queue) error {
	summary, err := q.Summary(ctx)
	if err != nil {
		return err
	}
	processes, err := s.Inspector.Processes(ctx)
	if err != nil {
		return err
	}
	row := queue{Name: q.Name, Waiting: summary.Size, Latency: seconds(summary.Latency), Listeners: listeners(processes)[q.Name], Paused: summary.Paused}
	names, err := s.Inspector.Queues(ctx)
	if err != nil {
		return err
	}
	if row.Listeners == 0 && row.Waiting == 0 && !slices.ContainsFunc(names, func(k inspect.QueueSummary) bool { return k.Name == q.Name }) {
		return cli.Exitf(cli.NotFound, "no queue %q is known", q.Name)
	}
	if s.JSON {
		return s.PrintJSON(row)
	}
	_, _ = fmt.Fprintf(s.Out, "%s: %d waiting, the oldest for %s, %d processes listen, paused: %v\n", cli.Line(q.Name), row.Waiting, brief(summary.Latency), row.Listeners, row.Paused)
	jobs, _, err := q.Page(ctx, int(max(0, summary.Size-oldest)), oldest)
	if err != nil {
		return err
	}
	slices.Reverse(jobs)
	t := newJobTable(s)
	for _, j := range jobs {
		t.row(j.Summary().EnqueuedAt, &j.JobRecord)
	}
	return t.Flush()
}
