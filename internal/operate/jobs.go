package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/cli"
	"github.com/troupehq/troupe/internal/control"
	"github.com/troupehq/troupe/internal/jobfilter"
	"github.com/troupehq/troupe/internal/mask"
)

func jobsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "Show jobs and act on them",
		Long: `Jobs shows jobs and acts on them, one by one or by a filter. SET is retry, scheduled or dead; list
also takes running and queue:NAME. Every action names a job by its exact bytes: what
somebody else has taken meanwhile is gone, and nothing is lost or done twice.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(listCommand(), showCommand(), cancelCommand())
	for _, a := range actions() {
		cmd.AddCommand(a.command())
	}
	return cmd
}

// sets are the names of the sorted sets.
var sets = []string{"retry", "scheduled", "dead"}

// setOf is a set by its name.
func setOf(i *inspect.Inspector, name string) (*inspect.JobSet, error) {
	switch name {
	case "retry":
		return i.RetrySet, nil
	case "scheduled":
		return i.ScheduledSet, nil
	case "dead":
		return i.DeadSet, nil
	}
	return nil, cli.Exitf(cli.Fault, "got %q, expected one of the sets %s", name, strings.Join(sets, ", "))
}

// filterFlags are the flags of a filter.
type filterFlags struct {
	filter       jobfilter.Filter
	since, until string
}

func (f *filterFlags) add(cmd *cobra.Command) {
	s := cmd.Flags()
	s.StringVar(&f.filter.Class, "class", "", "only jobs of this class")
	s.StringVar(&f.filter.Queue, "queue", "", "only jobs of this queue")
	s.StringVar(&f.filter.Error, "error", "", "only jobs that failed with this text in the error")
	s.StringVar(&f.filter.Tag, "tag", "", "only jobs with this tag")
	s.StringVar(&f.since, "since", "", "only jobs whose time (WHEN) is not before: a time, or a span back like 1h")
	s.StringVar(&f.until, "until", "", "only jobs whose time is before")
}

// read completes the filter.
func (f *filterFlags) read(now time.Time) (err error) {
	for _, t := range []struct {
		flag, text string
		to         *time.Time
	}{{"--since", f.since, &f.filter.Since}, {"--until", f.until, &f.filter.Until}} {
		if t.text == "" {
			continue
		}
		if *t.to, err = jobfilter.ParseTime(t.text, now); err != nil {
			return fmt.Errorf("%s: %w", t.flag, err)
		}
	}
	return nil
}

// job is a row of a list of jobs.
type job struct {
	When  *time.Time      `json:"when"` // due, of death, since when it waits or runs
	Class string          `json:"class"`
	JID   string          `json:"jid"`
	Queue string          `json:"queue"`
	Tries int             `json:"tries"` // failures so far
	Error string          `json:"error,omitempty"`
	Args  json.RawMessage `json:"args"`
	Tags  []string        `json:"tags,omitempty"`
}

type jobTable struct {
	s *cli.Session
	*cli.Table
}

func newJobTable(s *cli.Session) *jobTable {
	if s.JSON {
		return &jobTable{s: s}
	}
	return &jobTable{s, s.Table("WHEN", "CLASS", "JID", "QUEUE", "TRY", "ERROR", "ARGS")}
}

// widest is how many characters of an error or of arguments stand in a table.
const widest = 80

func (t *jobTable) row(when time.Time, r *inspect.JobRecord) {
	sum := r.Summary()
	args := mask.Args(sum.Args, t.s.Args)
	message := strings.TrimSuffix(sum.ErrorClass+": "+sum.ErrorMessage, ": ")
	if t.s.JSON {
		row := job{Class: sum.Class, JID: r.JID, Queue: r.Queue, Tries: r.Payload.Failures(), Error: message, Args: args, Tags: sum.Tags}
		if !when.IsZero() {
			when = when.UTC()
			row.When = &when
		}
		if row.Args == nil {
			row.Args = json.RawMessage("null")
		}
		_ = t.s.PrintJSON(row) // Flush of what follows tells
		return
	}
	t.Row(at(when), shorten(sum.Class), shorten(r.JID), r.Queue, number(r.Payload.Failures()), shorten(message), shorten(string(args)))
}

// Flush prints what is left.
func (t *jobTable) Flush() error {
	if t.Table == nil {
		return nil
	}
	return t.Table.Flush()
}

func shorten(text string) string {
	if r := []rune(text); len(r) > widest {
		return string(r[:widest]) + "…"
	}
	return text
}

func listCommand() *cobra.Command {
	var flags cli.Flags
	var filter filterFlags
	var limit int
	cmd := &cobra.Command{
		Use:       "list SET|running|queue:NAME",
		Short:     "List jobs",
		Long:      "List shows the jobs of a set, the next one due or the last dead first, of a queue, the oldest last, or those that run.",
		Example:   "  troupe jobs list retry --error 502 --since 1h\n  troupe jobs list queue:critical --limit 10",
		Args:      cobra.ExactArgs(1),
		ValidArgs: append(slices.Clone(sets), "running", "queue:"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := filter.read(time.Now()); err != nil {
				return err
			}
			return flags.Run(cmd, func(ctx context.Context, s *cli.Session) error { return list(ctx, s, args[0], &filter.filter, limit) })
		},
	}
	filter.add(cmd)
	cmd.Flags().IntVar(&limit, "limit", 50, "at most so many; 0 is all")
	flags.Add(cmd)
	return cmd
}

// list walks through jobs, and holds no more than a page of them.
func list(ctx context.Context, s *cli.Session, of string, f *jobfilter.Filter, limit int) error {
	if of == "running" {
		processes, err := s.Inspector.Processes(ctx)
		if err == nil {
			err = fresh(ctx, s, processes)
		}
		if err != nil {
			return err
		}
	}
	t, n := newJobTable(s), 0
	each := func(r *inspect.JobRecord, when time.Time) (more bool) {
		if f.Match(r, when) {
			t.row(when, r)
			n++
		}
		return limit <= 0 || n < limit
	}
	if err := walk(ctx, s.Inspector, of, each); err != nil {
		return err
	}
	if err := t.Flush(); err != nil || n > 0 {
		return err
	}
	return cli.Exitf(cli.NotFound, "no such jobs in %s", of)
}

// walk calls each for the jobs of a set, of a queue or those that run, until it returns false.
func walk(ctx context.Context, i *inspect.Inspector, of string, each func(r *inspect.JobRecord, when time.Time) bool) error {
	if name, ok := strings.CutPrefix(of, "queue:"); ok {
		for j, err := range i.Queue(name).Each(ctx) {
			if err != nil {
				return err
			}
			if !each(&j.JobRecord, since(&j.JobRecord)) {
				return nil
			}
		}
		return nil
	}
	if of == "running" {
		works, err := i.Works(ctx)
		for _, w := range works {
			if !each(&w.Job, w.RunAt) {
				break
			}
		}
		return err
	}
	set, err := setOf(i, of)
	if err != nil {
		return err
	}
	entries := set.Each(ctx)
	if of != "dead" {
		entries = set.Fetch(ctx, 0, 1e300, "") // the next one due first
	}
	for e, err := range entries {
		if err != nil {
			return err
		}
		if !each(&e.JobRecord, e.At) {
			return nil
		}
	}
	return nil
}

// since is when a job was put into its queue.
func since(r *inspect.JobRecord) time.Time {
	sum := r.Summary()
	if sum.EnqueuedAt.IsZero() {
		return sum.CreatedAt
	}
	return sum.EnqueuedAt
}

func showCommand() *cobra.Command {
	return command("show JID", "Show one job", `Show looks for a job among those that run, in the sets and in the queues, and shows its payload. It
goes through whole queues.`, cobra.ExactArgs(1), func(ctx context.Context, s *cli.Session, args []string) error {
		jid := args[0]
		found := func(where string, when time.Time, r *inspect.JobRecord) error {
			p := r.Payload.Clone()
			if r.Err == nil {
				p.Set("args", mask.Args(p.Args(), s.Args))
			}
			if s.JSON {
				return s.PrintJSON(map[string]any{"place": where, "when": when.UTC(), "payload": json.RawMessage(p.Bytes())})
			}
			_, _ = fmt.Fprintf(s.Out, "%s, %s\n", cli.Line(where), at(when))
			for key := range p.Keys() {
				text, _ := p.Get(key)
				_, _ = fmt.Fprintf(s.Out, "  %s\t%s\n", cli.Line(key), cli.Line(string(text)))
			}
			return nil
		}
		works, err := s.Inspector.Works(ctx)
		if err != nil {
			return err
		}
		for _, w := range works {
			if w.Job.JID == jid {
				return found("running in "+w.Process, w.RunAt, &w.Job)
			}
		}
		for _, name := range sets {
			set, err := setOf(s.Inspector, name)
			if err != nil {
				return err
			}
			e, err := set.FindJob(ctx, jid)
			if err == nil {
				return found(name, e.At, &e.JobRecord)
			}
			if !errors.Is(err, inspect.ErrNotFound) {
				return err
			}
		}
		queues, err := s.Inspector.Queues(ctx)
		if err != nil {
			return err
		}
		for _, q := range queues {
			for j, err := range q.Each(ctx) {
				if err != nil {
					return err
				}
				if j.JID == jid {
					return found("queue:"+q.Name, since(&j.JobRecord), &j.JobRecord)
				}
			}
		}
		return cli.Exitf(cli.NotFound, "no job %s runs, waits or is in a set: it is done, was discarded or was never pushed", jid)
	})
}

func cancelCommand() *cobra.Command {
	return command("cancel JID", "Cancel a running job", `Cancel ends the context of a job that runs in a process of troupe, with the cause
troupe.ErrCancelled. What becomes of it is its handler's affair: one that returns the error is
retried, one that ignores it goes on and is shown as unresponsive. In a process of Ruby only
iterable jobs can be cancelled; they end within some seconds.`, cobra.ExactArgs(1), func(ctx context.Context, s *cli.Session, args []string) error {
		if err := s.Change("cancelling a job"); err != nil {
			return err
		}
		call, stop := context.WithTimeout(ctx, replyTime)
		defer stop()
		process, err := cancelJob(call, s.Redis, args[0])
		switch {
		case errors.As(err, new(*refusedError)):
			return &cli.ExitError{Code: cli.Refused, Err: err}
		case errors.Is(err, control.ErrNoReply):
			return &cli.ExitError{Code: cli.Partly, Err: err}
		case err != nil:
			return err
		case s.JSON:
			return s.PrintJSON(map[string]string{"jid": args[0], "process": process})
		}
		return said(s, nil, "cancelled %s in %s", cli.Line(args[0]), cli.Line(process))
	})
}
