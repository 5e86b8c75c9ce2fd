package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/troupehq/troupe/internal/console/explain"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/words"
)

func jobsCommand(files cli.Files) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "Show jobs and act on them",
		Long: `Jobs shows jobs and acts on them, one by one or by a filter. SET is retry, scheduled or dead. The
commands list, export, delete and kill also take queue:NAME, list takes running, and move takes only
queue:NAME. Every action names a job by its exact bytes: what somebody else has taken meanwhile is
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

// filterFlags are the flags of a filter.
type filterFlags struct {
	filter                                                       bulk.Filter
	since, until, whenSince, whenUntil, failedSince, failedUntil string
}

func (f *filterFlags) add(s *pflag.FlagSet) {
	s.StringVar(&f.filter.Text, "text", "", "only jobs with this text in the class, the jid, the error or the arguments as they are shown")
	s.StringVar(&f.filter.Class, "class", "", "only jobs of this class")
	s.StringVar(&f.filter.Queue, "queue", "", "only jobs of this queue")
	s.StringVar(&f.filter.Error, "error", "", "only jobs that failed with this text in the error")
	s.StringVar(&f.filter.Tag, "tag", "", "only jobs with this tag")
	s.StringVar(&f.failedSince, "failed-since", "", "only jobs that have failed since, the last time: a time, or a span back like 1h")
	s.StringVar(&f.failedUntil, "failed-until", "", "only jobs whose last failure is before")
	s.StringVar(&f.whenSince, "when-since", "", "only jobs whose WHEN (next try, due, death, push or start) is not before; of retry and scheduled a span is one ahead")
	s.StringVar(&f.whenUntil, "when-until", "", "only jobs whose WHEN is before")
	for name, to := range map[string]*string{"since": &f.since, "until": &f.until} {
		s.StringVar(to, name, "", "")
		_ = s.MarkDeprecated(name, "it means WHEN, of a retry its next try: use --failed-"+name+" or --when-"+name)
	}
}

// read is the filter of the jobs of a set, a queue or those that run.
func (f *filterFlags) read(s *cli.Session, of string, now time.Time) (filter bulk.Filter, err error) {
	filter = f.filter
	filter.Mask = s.Mask
	filter.Args = func(r *inspect.JobRecord, _ *inspect.JobSummary) json.RawMessage { return s.Mask.Summary(r).Args }
	when := bulk.ParseTime
	if of == "retry" || of == "scheduled" {
		when = bulk.ParseFuture
	}
	for _, t := range []struct {
		flag, text string
		to         *time.Time
		parse      func(string, time.Time) (time.Time, error)
	}{
		{"--since", f.since, &filter.Since, bulk.ParseTime}, {"--until", f.until, &filter.Until, bulk.ParseTime},
		{"--when-since", f.whenSince, &filter.Since, when}, {"--when-until", f.whenUntil, &filter.Until, when},
		{"--failed-since", f.failedSince, &filter.FailedSince, bulk.ParseTime}, {"--failed-until", f.failedUntil, &filter.FailedUntil, bulk.ParseTime},
	} {
		if t.text == "" {
			continue
		}
		if *t.to, err = t.parse(t.text, now); err != nil {
			return filter, fmt.Errorf("%s: %w", t.flag, err)
		}
	}
	return filter, nil
}

// job is a row of a list of jobs.
type job struct {
	When  *time.Time      `json:"when"`            // due, of death, since when it waits or runs
	Score string          `json:"score,omitempty"` // in a set where that is no time
	Class string          `json:"class"`
	JID   string          `json:"jid"`
	Queue string          `json:"queue"`
	Tries int             `json:"tries"` // failures so far
	Error string          `json:"error,omitempty"`
	Args  json.RawMessage `json:"args"`
	Tags  []string        `json:"tags,omitempty"`

	Progress *explain.Progress `json:"progress,omitempty"` // of an iterable job that has begun
}

// moment is a time in JSON, nil for none.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// jobTable prints jobs. How far those have come that are iterable it asks Redis for many at once.
type jobTable struct {
	ctx context.Context //nolint:containedctx // of the one list
	s   *cli.Session
	*cli.Table
	waiting []jobRow // that are not printed yet
	err     error    // the first one
}

// jobRow is a job that is to be printed.
type jobRow struct {
	when  time.Time
	score float64
	*inspect.JobRecord
}

// atOnce is how many rows are printed at once.
const atOnce = 100

func newJobTable(ctx context.Context, s *cli.Session) *jobTable {
	t := &jobTable{ctx: ctx, s: s}
	if !s.JSON {
		t.Table = s.Table("WHEN", "CLASS", "JID", "QUEUE", "TRY", "ERROR", "ARGS", "PROGRESS")
	}
	return t
}

// widest is how many characters of an error or of arguments stand in a table.
const widest = 80

func (t *jobTable) row(when time.Time, score float64, r *inspect.JobRecord) {
	if t.waiting = append(t.waiting, jobRow{when, score, r}); len(t.waiting) == atOnce {
		t.print()
	}
}

// print prints the rows that wait.
func (t *jobTable) print() {
	jids := make([]string, len(t.waiting))
	for i, r := range t.waiting {
		jids[i] = r.JID
	}
	its, err := t.s.Inspector.Iterations(t.ctx, jids...)
	if t.err = cmp.Or(t.err, err); t.err == nil {
		for i, r := range t.waiting {
			t.one(r.when, r.score, r.JobRecord, explain.ProgressOf(&its[i], t.s.Mask))
		}
	}
	t.waiting = t.waiting[:0]
}

func (t *jobTable) one(when time.Time, score float64, r *inspect.JobRecord, progress *explain.Progress) {
	sum := t.s.Mask.Summary(r)
	args := sum.Args
	message := strings.TrimSuffix(sum.ErrorClass+": "+sum.ErrorMessage, ": ")
	if t.s.JSON {
		row := job{When: moment(when), Class: sum.Class, JID: r.JID, Queue: r.Queue, Tries: r.Payload.Failures(), Error: message, Args: args, Tags: sum.Tags, Progress: progress}
		if when.IsZero() && score != 0 {
			row.Score = strings.TrimPrefix(scores.Words(score), "score ")
		}
		if row.Args == nil {
			row.Args = json.RawMessage("null")
		}
		t.err = cmp.Or(t.err, t.s.PrintJSON(row)) // Flush tells
		return
	}
	moment := words.At(when)
	if when.IsZero() && score != 0 {
		moment = scores.Words(score)
	}
	fields := []string{moment, shorten(sum.Class), shorten(r.JID), shorten(r.Queue), number(r.Payload.Failures()), shorten(message), shorten(string(args))}
	if progress != nil || t.s.Terminal { // few jobs have one: into a pipe it is no field that is always empty
		fields = append(fields, shorten(progress.String()))
	}
	t.Row(fields...)
}

// Flush prints what is left.
func (t *jobTable) Flush() error {
	t.print()
	if t.Table == nil || t.err != nil {
		return t.err
	}
	return t.Table.Flush()
}

func shorten(text string) string {
	if r := []rune(text); len(r) > widest {
		return string(r[:widest]) + "…"
	}
	return text
}

func listCommand(files cli.Files) *cobra.Command {
	var filter filterFlags
	limit := 50
	return spec{
		use: "list SET|running|queue:NAME", short: "List jobs", args: cli.Args(1, 1), words: append(slices.Clone(bulk.Sets), "running"), names: queueKeys,
		long:    "List shows the jobs of a set, the next one due or the last dead first, of a queue, the oldest last, or those that run.",
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
	if err := walk(ctx, s, of, (*inspect.Queue).Each, func(r *inspect.JobRecord, when time.Time, score float64) (more bool) {
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

// order is a way through a queue.
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
	set, err := setOf(s, of, "running", "queue:NAME")
	if err != nil {
		return err
	}
	entries := set.Each(ctx)
	if of != "dead" {
		entries = set.Fetch(ctx, math.Inf(-1), math.Inf(1), "") // the next one due first
	}
	for e, err := range entries {
		if err != nil {
			return err
		}
		if !each(&e.JobRecord, e.At, e.Score) {
			return nil
		}
	}
	return nil
}

// cancelled is what --json shows of a job that was cancelled.
type cancelled struct {
	JID     string        `json:"jid"`
	Place   inspect.Place `json:"place"`
	Queue   string        `json:"queue"`
	Process string        `json:"process"`
	Deleted bool          `json:"deleted"`
}

func cancelCommand(files cli.Files) *cobra.Command {
	return spec{
		use: "cancel JID", short: "Cancel a job, wherever it is", args: cli.Args(1, 1), change: "cancelling a job",
		long: `Cancel deletes a job that waits in a queue, is scheduled or is to be retried, and says where it
was. Of a job that runs in a process of troupe it ends the context, with the cause
troupe.ErrCancelled. What becomes of that is its handler's affair: one that returns the error is
retried, one that ignores it goes on and is shown as unresponsive. In a process of Ruby only
iterable jobs can be cancelled; they end within some seconds. An iterable job that has begun and
waits ends when it runs next, so that its OnCancel runs.`,
		run: func(ctx context.Context, s *cli.Session, args []string) error {
			s.About([]string{"jobs", args[0], "cancel"}, args[0])
			call, stop := context.WithTimeout(ctx, replyTime)
			defer stop()
			found, err := s.Inspector.Cancel(call, args[0])
			switch {
			case errors.As(err, new(*inspect.RefusedError)):
				return &cli.ExitError{Code: cli.Refused, Err: err}
			case errors.Is(err, inspect.ErrNoReply):
				return &cli.ExitError{Code: cli.Partly, Err: err}
			}
			shown := cancelled{JID: args[0], Place: found.Place, Queue: found.Queue, Process: found.Process, Deleted: found.Deleted}
			return said(s, err, shown, "cancelled %s: %s", args[0], found)
		},
	}.command(files)
}
