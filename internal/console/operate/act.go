package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupehq/troupe/internal/console/bulk"
	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/words"
)

// bulkCall is one call of an action.
type bulkCall struct {
	bulk.Task
	filter           filterFlags
	places           []string // that it is for
	to               string
	in               time.Duration
	all, dryRun, yes bool
}

func actionCommand(files cli.Files, a bulk.Action) *cobra.Command {
	b := bulkCall{Task: bulk.Task{Action: a, Rate: 1000}}
	sets := a.Allowed()
	if a.Allows(bulk.Held) {
		sets = append(sets, bulk.Held)
	}
	places, place := slices.Clone(sets), "SET"
	var names completion
	if a.Allows(bulk.Queued) {
		places, names = append(places, "queue:NAME"), queueKeys
		if place += "|queue:NAME"; len(sets) == 0 {
			place = "queue:NAME"
		}
	}
	b.places = places
	flagNames, more := map[string]completion{}, ""
	if a.Moves {
		flagNames["to"] = queueNames
		more = `

The jobs keep their order and wait behind those that are in the other queue. Their retries go there,
too. Each is moved in one step, so workers may take from both queues meanwhile; on a cluster a job
that is taken just then may run twice. It warns if the other queue is paused, nobody listens to it,
or it is not known.`
	}
	return spec{
		use: a.Name + " " + place + " (JID... | FILTER | --all)", short: a.Short, args: cli.Args(1, -1), words: sets, names: names, flagNames: flagNames,
		long: a.Short + `: those that are named, those that a filter chooses, or all,
of ` + either(places) + `. It looks first how many there are; above 100` + always(a) + ` it
wants the number typed, or --yes. Ctrl-C ends it between two jobs. At the end it tells how many were done,
gone (taken by somebody else), stopped (by client middleware) and left.` + more,
		example: example(a),
		flags: func(f *pflag.FlagSet) {
			b.filter.add(f)
			f.BoolVar(&b.all, "all", false, "all of the set or queue")
			f.BoolVar(&b.dryRun, "dry-run", false, "tell how many there are, and show some, and do nothing")
			f.BoolVar(&b.yes, "yes", false, "do not ask")
			f.Var(cli.Number(&b.Rate, 0, 0), "rate", "at most so many a second; 0 is as fast as it goes")
			if a.Moves {
				f.StringVar(&b.to, "to", "", "the queue to move to; it need not exist")
				_ = cobra.MarkFlagRequired(f, "to")
			}
			if a.Timed {
				f.Var(cli.Span(&b.in), "in", cli.InUsage)
				f.Var(cli.Moment(&b.At), "at", cli.AtUsage)
			}
		},
		run: func(ctx context.Context, s *cli.Session, args []string) error {
			if err := b.read(s, args, time.Now()); err != nil {
				return err
			}
			return b.run(ctx, s)
		},
	}.command(files)
}

// always says when an action asks, however few jobs there are.
func always(a bulk.Action) string {
	if a.Name == "delete" {
		return ", and on a terminal with --all,"
	}
	return ""
}

// either is a list of names in words.
func either(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// example is one of an action.
func example(a bulk.Action) string {
	place := "retry"
	switch {
	case a.Moves:
		return "  troupe jobs move queue:default --class Report --to slow --dry-run"
	case !a.Allows("retry"):
		place = bulk.Held
	case a.Allows("dead"):
		place = "dead"
	}
	return fmt.Sprintf("  troupe jobs %s %s --error 502 --failed-since 1h --dry-run", a.Name, place)
}

// read checks and completes the flags.
func (b *bulkCall) read(s *cli.Session, args []string, now time.Time) (err error) {
	if b.Filter, err = b.filter.read(s, args[0], now); err != nil {
		return err
	}
	name, queued := strings.CutPrefix(args[0], bulk.Queued)
	if b.Set = bulk.SetOf(s.Inspector, args[0]); queued && name != "" {
		b.Queue = s.Inspector.Queue(name)
	} else if args[0] == bulk.Held {
		b.Held = s.Inspector
	} else if b.Set == nil {
		return cli.Exitf(cli.Fault, "got %q, expected %s", args[0], words.OneOf(args[0], b.places...))
	}
	if err := b.Refused(args[0]); err != nil {
		return cli.Exitf(cli.Refused, "%s of %s: %w", b.Name, b.place(), err)
	}
	if b.Moves {
		b.To = s.Inspector.Queue(b.to)
	}
	if err := b.Check(); err != nil {
		return &cli.ExitError{Code: cli.Fault, Err: err}
	}
	chosen := b.Filter.String() != ""
	if n := len(args) - 1; n > 0 && (b.all || chosen) || n == 0 && b.all == chosen {
		return cli.Exitf(cli.Fault, "%d jids are named, a filter is given: %v, --all is %v, expected one of the three", n, chosen, b.all)
	} else if n > 0 {
		b.JIDs = args[1:]
	}
	switch {
	case b.Timed && b.At.IsZero() == (b.in == 0):
		return cli.Exitf(cli.Fault, "--in is %s, and --at is given: %v, expected one of the two", words.Brief(b.in), !b.At.IsZero())
	case b.in > 0:
		b.At = now.Add(b.in)
	}
	return nil
}

// place is where the jobs are, for people.
func (b *bulkCall) place() string {
	if b.Queue != nil {
		return "the queue " + b.Queue.Name
	}
	if b.Held != nil {
		return "the held jobs"
	}
	return "the set " + b.Set.Name
}

// setPaths are the pages of the sets on the dashboard, by the key of the set.
var setPaths = map[string]string{"retry": "retries", "schedule": "scheduled", "dead": "dead"}

// shown is how many entries a dry run shows.
const shown = 10

func (b *bulkCall) run(ctx context.Context, s *cli.Session) error {
	if b.Moves {
		warning, err := s.Destination(ctx, b.To.Name)
		if elsewhere, ok := errors.AsType[*fleet.ElsewhereError](err); ok {
			return cli.Exitf(cli.Refused, "--to: %w", elsewhere)
		} else if err != nil {
			return fmt.Errorf("--to: %w", err)
		}
		if warning != "" {
			_, _ = fmt.Fprintf(s.Err, "troupe: warning: %s\n", cli.Line(warning))
		}
	}
	total, some, err := b.Preview(ctx, shown)
	if err != nil {
		return err
	}
	if total == 0 {
		return b.none(ctx, s)
	}
	if b.Queue != nil && b.JIDs == nil { // those that are pushed meanwhile are none of those that were counted
		b.Limit = total
	}
	if b.dryRun {
		if s.JSON {
			return s.PrintJSON(map[string]int{"matches": total})
		}
		_, _ = fmt.Fprintf(s.Out, "%s would be %s, among them\n", words.Plural(total, "job"), b.Past)
		t := newJobTable(ctx, s)
		for _, e := range some {
			t.row(e.When(), e.Score(), e.Record())
		}
		return t.Flush()
	}
	if err := s.May(ctx, b.Name+" of jobs"); err != nil {
		return err
	}
	switch {
	case b.Queue != nil:
		s.About([]string{"queues", b.Queue.Name, b.Name}, b.JIDs...)
	case b.Held != nil:
		s.About([]string{"limits", b.Name}, b.JIDs...)
	default:
		s.About([]string{setPaths[b.Set.Name]}, b.JIDs...)
	}
	if err := s.Confirm(ctx, cli.Ask{Yes: b.yes, N: int64(total), Always: b.all && b.Name == "delete"}, "%s %s of %s", b.Name, words.Plural(total, "job"), b.place()); err != nil {
		return err
	}
	counts, err := b.Run(ctx, progress(s, total))
	return counted(s, b.Past, total, counts, err)
}

// none returns the error that there are no such jobs. For a queue it gives a likely reason.
func (b *bulkCall) none(ctx context.Context, s *cli.Session) error {
	if b.Queue == nil {
		return cli.Exitf(cli.NotFound, "no such jobs in %s", b.Task.Place())
	}
	row, err := known(ctx, s, b.Queue.Name)
	if err != nil || row.Waiting == 0 {
		if elsewhere := s.Elsewhere(ctx, b.Queue.Name); elsewhere != nil {
			return &cli.ExitError{Code: cli.Refused, Err: elsewhere}
		}
	}
	if err != nil {
		return err
	}
	return cli.Exitf(cli.NotFound, "no such jobs in %s", b.Place())
}

// progress shows on a terminal how far a task is.
func progress(s *cli.Session, total int) func(bulk.Counts) {
	const width = 30
	last := time.Time{}
	return func(c bulk.Counts) {
		n := c.Sum()
		if s.JSON || !s.Terminal || total == 0 || n < total && time.Since(last) < 200*time.Millisecond {
			return
		}
		last = time.Now()
		share := min(1, float64(n)/float64(total))
		filled := int(share * width)
		_, _ = fmt.Fprintf(s.Err, "\r[%s%s] %s of %s, %.0f%%", strings.Repeat("#", filled), strings.Repeat(".", width-filled), words.Count(n), words.Count(total), share*100)
		if n >= total {
			_, _ = fmt.Fprintln(s.Err)
		}
	}
}

// counted tells what a task did, also after an error: then the rest of total is left.
func counted(s *cli.Session, past string, total int, c bulk.Counts, err error) error {
	if err != nil {
		c.Left += max(0, total-c.Sum())
	}
	if s.JSON {
		_ = s.PrintJSON(c)
	}
	text := fmt.Sprintf("%s: %s done, %s gone, %s stopped, %s left", past, words.Count(c.Done), words.Count(c.Gone), words.Count(c.Stopped), words.Count(c.Left))
	s.Told(text, c)
	if !s.JSON {
		_, _ = fmt.Fprintln(s.Out, text)
		if c.Fault != "" {
			_, _ = fmt.Fprintf(s.Err, "troupe: the first that was left: %s\n", cli.Line(c.Fault))
		}
	}
	if err == nil && c.Left > 0 {
		return &cli.ExitError{Code: cli.Partly}
	}
	return err
}
