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

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/words"
)

func batchesCommand(files cli.Files) *cobra.Command {
	limit, open, stuck := 50, false, false
	list := spec{
		use: "list", short: "Show the batches of jobs", args: cli.Args(0, 0),
		long: `Batches shows the batches of jobs, the newest first: how many jobs each has, how many of these are not done, how many of those have
failed, and when something was counted last. It reads up to 10,000 batches. With --stuck it also looks for their jobs, among up to
2,000,000, and shows the batches that wait for jobs that are nowhere, or whose callback is refused by its queue.`,
		flags: func(f *pflag.FlagSet) {
			f.BoolVar(&open, "open", false, "only those that are open: they do not end before they are closed")
			f.BoolVar(&stuck, "stuck", false, "only those that do not end by themselves")
			f.Var(cli.Number(&limit, 0, 0), "limit", "at most so many; 0 is all")
		},
		run: func(ctx context.Context, s *cli.Session, _ []string) error {
			all, cut, err := s.Batches(ctx)
			if open {
				all = slices.DeleteFunc(all, func(b fleet.Batch) bool { return b.State != inspect.BatchOpen })
			}
			if err == nil && stuck {
				all, err = s.Stuck(ctx, fleet.MostInBatches, all)
			}
			if err != nil {
				return err
			}
			if more := limit > 0 && len(all) > limit; more {
				all = all[:limit]
				s.Note("there are more: --limit 0 shows all")
			}
			if cut {
				s.Note("there are more than 10,000 batches: those whose keys expire first were not read")
			}
			return batchTable(s, "there are no such batches", all)
		},
	}
	all := list
	all.use, all.short = "batches", "Show, close and cancel batches of jobs, and count out jobs that are nowhere"
	cmd := all.command(files)
	cmd.AddCommand(list.command(files), batchShowCommand(files), batchCloseCommand(files), batchCancelCommand(files), batchCountOutCommand(files))
	return cmd
}

func batchTable(s *cli.Session, none string, all []fleet.Batch) error {
	return cli.Rows(s, "BATCH NAME STATE JOBS PENDING FAILED COUNTED STUCK", none, all, func(b fleet.Batch) []string {
		return []string{b.ID, shorten(b.Name), b.State, number(b.Total), number(b.Pending), number(b.Failed), words.Since(b.Last), b.Stuck}
	})
}

func batchShowCommand(files cli.Files) *cobra.Command {
	return spec{
		use: "show ID", short: "Show one batch, and where its jobs are", args: cli.Args(1, 1), names: batchIDs,
		long: `Show shows one batch: its callbacks, and when they were pushed, the batches within it, and where those of its jobs are that are not
done. It looks for these among all jobs, up to 2,000,000, which takes seconds. Jobs that are in no queue and no set, and that nobody runs, are
missing: Ruby has run or deleted them, or they have fallen out of the dead set. batches count-out has the batch not wait for them.`,
		run: func(ctx context.Context, s *cli.Session, args []string) error { return showBatch(ctx, s, args[0]) },
	}.command(files)
}

func showBatch(ctx context.Context, s *cli.Session, id string) error {
	b, more, why, err := s.OneBatch(ctx, id, fleet.MostInBatches)
	if err != nil {
		return noBatch(err, id)
	}
	if why != nil && !errors.Is(why, inspect.ErrTooManyJobs) {
		return why
	}
	if why != nil {
		defer s.Note("its jobs were not looked for: %v", why)
	}
	if more {
		defer s.Note("it has more than 1,000 batches within it")
	}
	if s.JSON {
		return s.PrintJSON(b)
	}
	return printBatch(s, &b)
}

// printBatch prints a batch for people.
func printBatch(s *cli.Session, b *fleet.Batch) error {
	name := b.ID
	if b.Name != "" {
		name += " (" + words.Head(b.Name) + ")"
	}
	line := func(format string, args ...any) { _, _ = fmt.Fprintln(s.Out, cli.Line(fmt.Sprintf(format, args...))) }
	line("%s: %s, %s of %s not done", name, b.State, words.Count(b.Pending), words.Plural(b.Total, "job"))
	line("made\t%s", words.At(b.Made))
	line("counted\t%s", words.At(b.Last))
	for _, event := range []struct {
		name string
		at   time.Time
	}{{"complete", b.Complete}, {"succeeded", b.Success}, {"first death", b.Death}, {"cancelled", b.Cancelled}} {
		if !event.at.IsZero() {
			line("%s\t%s", event.name, words.At(event.at))
		}
	}
	if b.Parent != "" {
		line("within\t%s", b.Parent)
	}
	for _, c := range b.Callbacks {
		pushed := "not pushed"
		switch {
		case c.Refused:
			pushed = "refused by its queue: troupe batches close " + words.Word(b.ID) + " pushes it when that is mended"
		case !c.Pushed.IsZero():
			pushed = "pushed " + words.At(c.Pushed)
		}
		line("on %s\t%s %s in %s: %s", c.Event, c.Class, c.JID, c.Queue, pushed)
	}
	if jobs := b.Jobs; jobs != nil {
		for _, p := range jobs.Places {
			line("in %s\t%s", strings.TrimPrefix(p.Place, "in "), words.Plural(p.Jobs, "job"))
		}
		if jobs.Batches > 0 {
			line("in batches\t%s", words.Plural(jobs.Batches, "job"))
		}
		if len(jobs.Dead) > 0 {
			line("dead\t%s", strings.Join(jobs.Dead[:min(len(jobs.Dead), batchShown)], " "))
		}
		if jobs.Missing > 0 {
			line("missing\t%s by %s: troupe batches count-out %s has it not wait for them", words.Plural(jobs.Missing, "job"), numbers(jobs), words.Word(b.ID))
		}
	}
	if len(b.Children) == 0 {
		return nil
	}
	line("within it:")
	return batchTable(s, "", b.Children)
}

// batchShown is how many jobs of a batch are named in a line.
const batchShown = 10

// numbers lists the indexes of missing jobs in their batch.
func numbers(jobs *fleet.BatchJobs) string {
	var b strings.Builder
	for n, index := range jobs.MissingAt[:min(len(jobs.MissingAt), batchShown)] {
		_, _ = fmt.Fprintf(&b, "%s%d", map[bool]string{true: ", ", false: "number "}[n > 0], index)
	}
	if jobs.Missing > batchShown {
		b.WriteString(" …")
	}
	return b.String()
}

func noBatch(err error, id string) error {
	if errors.Is(err, inspect.ErrNotFound) {
		return cli.Exitf(cli.NotFound, "no batch is named %q; troupe batches shows all", id)
	}
	return err
}

// batchToEnd is a batch that has not ended.
func batchToEnd(ctx context.Context, s *cli.Session, id, verb string) (*inspect.Batch, error) {
	b, err := s.Inspector.Batch(ctx, id)
	if err != nil {
		return nil, noBatch(err, id)
	}
	if state := b.State(); b.Ended() && (verb != "cancel" || state != inspect.BatchCancelled) {
		was := map[string]string{inspect.BatchSucceeded: "has succeeded", inspect.BatchCancelled: "was cancelled"}[state]
		return nil, cli.Exitf(cli.NotFound, "the batch %s %s: there is nothing to %s", id, was, verb)
	}
	s.About([]string{"batches", id, verb})
	return b, nil
}

func batchCloseCommand(files cli.Files) *cobra.Command {
	var c changeFlags
	return spec{
		use: "close ID", short: "Let a batch end", args: cli.Args(1, 1), names: batchIDs, change: "closing a batch",
		long: `Close lets a batch end that is open, or that a program has left in the middle: its callbacks are pushed when its jobs have ended, or now.
Of one that is closed it pushes callbacks that their queue has refused. The reason is kept in the audit. On a terminal it asks, or wants --yes.`,
		flags: c.add,
		run: func(ctx context.Context, s *cli.Session, args []string) error {
			b, err := batchToEnd(ctx, s, args[0], "close")
			if err != nil {
				return err
			}
			if err := s.Confirm(ctx, cli.Ask{Yes: c.yes, N: 1, Always: true}, "close the batch %s (%s)", b.ID, notDone(b)); err != nil {
				return err
			}
			if err = s.Inspector.Client.CloseBatch(ctx, b.ID); err == nil {
				b, err = s.Inspector.Batch(ctx, b.ID)
			}
			if err != nil {
				return err
			}
			return said(s, nil, map[string]any{"batch": b.ID, "state": b.State(), "pending": b.Pending}, "the batch %s is closed: %s, %s", b.ID, b.State(), notDone(b))
		},
	}.command(files)
}

func notDone(b *inspect.Batch) string {
	return fmt.Sprintf("%s of %s not done", words.Count(b.Pending), words.Plural(b.Total, "job"))
}

func batchCancelCommand(files cli.Files) *cobra.Command {
	var c changeFlags
	return spec{
		use: "cancel ID", short: "Drop the waiting jobs of a batch, and push no callbacks", args: cli.Args(1, 1), names: batchIDs, change: "cancelling a batch",
		long: `Cancel has the waiting jobs of a batch, and of the batches within it, be dropped when their turn comes. Their callbacks are not pushed any more.
Jobs that run go on: jobs cancel. For the batch around it it is done. There is no way back. The reason is kept in the audit. On a
terminal it asks, or wants --yes.`,
		flags: c.add,
		run: func(ctx context.Context, s *cli.Session, args []string) error {
			b, err := batchToEnd(ctx, s, args[0], "cancel")
			if err != nil {
				return err
			}
			if err := s.Confirm(ctx, cli.Ask{Yes: c.yes, N: max(1, b.Pending), Always: true}, "cancel the batch %s (%s)", b.ID, notDone(b)); err != nil {
				return err
			}
			err = s.Inspector.Client.CancelBatch(ctx, b.ID)
			return said(s, err, map[string]any{"batch": b.ID, "state": inspect.BatchCancelled, "pending": b.Pending}, "the batch %s is cancelled: %s", b.ID, notDone(b))
		},
	}.command(files)
}

func batchCountOutCommand(files cli.Files) *cobra.Command {
	var c changeFlags
	wait := inspect.BatchLooks
	return spec{
		use: "count-out ID", short: "Have a batch not wait for jobs that are nowhere", args: cli.Args(1, 1), names: batchIDs, change: "counting jobs of a batch out",
		long: `Count-out counts those jobs of a batch as done that are in no queue and no set, and that nobody runs: Ruby has run or deleted them, they have
fallen out of the dead set, or Redis has lost them. Then callbacks may be pushed. It looks for them among all jobs twice, with --wait between:
what runs in Ruby's processes is seen by their heartbeats, every 10 s. The reason is kept in the audit. On a terminal it asks, or wants --yes.`,
		example: "  troupe batches count-out 8b7c2f0a9d1e4c5b6a79880f --reason 'Ruby has run them'",
		flags: func(f *pflag.FlagSet) {
			f.Var(cli.Span(&wait), "wait", "so long between the two looks")
			c.add(f)
		},
		run: func(ctx context.Context, s *cli.Session, args []string) error {
			b, err := batchToEnd(ctx, s, args[0], "count-out")
			if err != nil {
				return err
			}
			found, err := s.Inspector.FindBatchJobs(ctx, 0, b)
			if err != nil {
				return err
			}
			missing := int64(0)
			if jobs := found[b.ID]; jobs != nil {
				missing = jobs.Missing
			}
			if missing == 0 {
				return cli.Exitf(cli.NotFound, "no job of the batch %s is missing: %s", b.ID, notDone(b))
			}
			if err := s.Confirm(ctx, cli.Ask{Yes: c.yes, N: missing, Always: true}, "count %s of the batch %s as done", words.Plural(missing, "job"), b.ID); err != nil {
				return err
			}
			n, err := b.CountOut(ctx, wait)
			return said(s, err, map[string]any{"batch": b.ID, "counted_out": n}, "counted out %s of the batch %s", words.Plural(n, "job"), b.ID)
		},
	}.command(files)
}

// batchIDs returns the IDs of batches, for the completion of an argument.
func batchIDs(ctx context.Context, s *cli.Session) (ids []string, err error) {
	const most = 100
	all, _, err := s.Inspector.Batches(ctx)
	for _, b := range all[:min(len(all), most)] {
		ids = append(ids, b.ID)
	}
	return ids, err
}
