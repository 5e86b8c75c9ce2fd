package operate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupehq/troupe/internal/console/bulk"
	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/words"
)

// bulkCall is one call of an action.
type bulkCall struct {
	bulk.Task
	filter           filterFlags
	at               string
	all, dryRun, yes bool
}

func actionCommand(a bulk.Action) *cobra.Command {
	b := bulkCall{Task: bulk.Task{Action: a}}
	sets := a.Allowed()
	last := len(sets) - 1
	return spec{
		use: a.Name + " SET (JID... | FILTER | --all)", short: a.Short, args: cobra.MinimumNArgs(1), words: sets,
		long: a.Short + `: those that are named, those that a filter chooses, or all of SET (` + strings.Join(sets[:last], ", ") + " or " + sets[last] + `). It looks
first how many there are; above 100 it wants the number typed, or --yes. Ctrl-C ends it between two
jobs. At the end it tells how many were done, gone (taken by somebody else), stopped (by client
middleware) and left.`,
		example: fmt.Sprintf("  troupe jobs %s %s --error 502 --failed-since 1h --dry-run", a.Name, example(a)),
		flags: func(f *pflag.FlagSet) {
			b.filter.add(f)
			f.BoolVar(&b.all, "all", false, "all of the set")
			f.BoolVar(&b.dryRun, "dry-run", false, "tell how many there are, and show some, and do nothing")
			f.BoolVar(&b.yes, "yes", false, "do not ask")
			f.IntVar(&b.Rate, "rate", 1000, "at most so many a second; 0 is as fast as it goes")
			if a.Timed {
				f.StringVar(&b.at, "at", "", "the new time: RFC 3339, seconds since the epoch, or a span from now like 2h")
				_ = cobra.MarkFlagRequired(f, "at")
			}
		},
		run: func(ctx context.Context, s *cli.Session, args []string) error {
			if err := b.read(s, args, time.Now()); err != nil {
				return err
			}
			return b.run(ctx, s)
		},
	}.command()
}

// example is a set that an example of an action has.
func example(a bulk.Action) string {
	if a.Allows("dead") {
		return "dead"
	}
	return "retry"
}

// read checks and completes the flags.
func (b *bulkCall) read(s *cli.Session, args []string, now time.Time) (err error) {
	if b.Filter, err = b.filter.read(s, args[0], now); err != nil {
		return err
	}
	if b.Set, err = setOf(s, args[0]); err != nil {
		return err
	}
	if !b.Allows(b.Set.Name) {
		return cli.Exitf(cli.Refused, "%s of the set %s: %w", b.Name, args[0], bulk.ErrNotAllowed)
	}
	chosen := b.Filter.String() != ""
	if n := len(args) - 1; n > 0 && (b.all || chosen) || n == 0 && b.all == chosen {
		return cli.Exitf(cli.Fault, "%d jids are named, a filter is given: %v, --all is %v, expected one of the three", n, chosen, b.all)
	} else if n > 0 {
		b.JIDs = args[1:]
	}
	if b.Rate < 0 {
		return cli.Exitf(cli.Fault, "--rate is %d, expected 0 or more", b.Rate)
	}
	if b.Timed {
		if b.At, err = bulk.ParseFuture(b.at, now); err != nil {
			return fmt.Errorf("--at: %w", err)
		}
	}
	return nil
}

// setPaths are the pages of the sets on the dashboard, by the key of the set.
var setPaths = map[string]string{"retry": "retries", "schedule": "scheduled", "dead": "dead"}

// shown is how many entries a dry run shows.
const shown = 10

func (b *bulkCall) run(ctx context.Context, s *cli.Session) error {
	total, some, err := b.Preview(ctx, shown)
	if err != nil {
		return err
	}
	if total == 0 {
		return cli.Exitf(cli.NotFound, "no such jobs in %s", b.Set.Name)
	}
	if b.dryRun {
		if s.JSON {
			return s.PrintJSON(map[string]int{"matches": total})
		}
		_, _ = fmt.Fprintf(s.Out, "%s would be %s, among them\n", words.Plural(total, "job"), b.Past)
		t := newJobTable(s)
		for _, e := range some {
			t.row(e.At, e.Score, &e.JobRecord)
		}
		return t.Flush()
	}
	if err := s.May(ctx, b.Name+" of jobs"); err != nil {
		return err
	}
	s.About([]string{setPaths[b.Set.Name]}, b.JIDs...)
	if err := s.Confirm(ctx, b.yes, int64(total), "%s %s of the set %s", b.Name, words.Plural(total, "job"), b.Set.Name); err != nil {
		return err
	}
	counts, err := b.Run(ctx, progress(s, total))
	return counted(s, b.Past, total, counts, err)
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
