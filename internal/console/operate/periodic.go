package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/periodic"
	"github.com/troupehq/troupe/internal/words"
)

func periodicCommand(files cli.Files) *cobra.Command {
	list := spec{
		use: "list", short: "Show the periodic jobs", args: cli.Args(0, 0),
		long: `Periodic shows the jobs that are pushed by the clock, those of Ruby's sidekiq-cron, too: their lines,
the next tick, the last push, and why a tick pushes nothing. One that is stuck is enabled and pushes
nothing: it cannot be carried out, or no process deals with its ticks.`,
		run: listPeriodic,
	}
	one := func(use, short, change string, do func(ctx context.Context, s *cli.Session, p fleet.Periodic) error) spec {
		var space string
		return spec{
			use: use + " NAME", short: short, args: cli.Args(1, 1), names: periodicNames, change: change, flags: namespace(&space),
			run: func(ctx context.Context, s *cli.Session, args []string) error {
				return each(ctx, s, args, space, use, do)
			},
		}
	}
	some := func(use, short, change string, do func(ctx context.Context, s *cli.Session, p fleet.Periodic) error) spec {
		c := one(use, short, change, do)
		c.use, c.args = use+" NAME...", nil // so that each argument is completed
		return c
	}
	var yes bool
	remove := one("delete", "Delete a periodic job", "deleting a periodic job", func(ctx context.Context, s *cli.Session, p fleet.Periodic) error {
		back := ""
		if p.Tag != "" {
			back = ", which is there again when a process with the tag " + p.Tag + " starts, unless its configuration has it no more"
		}
		if err := s.Confirm(ctx, cli.Ask{Yes: yes, N: 1, Always: true}, "delete the periodic job %s%s", p.Name, back); err != nil {
			return err
		}
		return said(s, p.Delete(ctx), map[string]any{"name": p.Name, "deleted": true}, "deleted %s%s", p.Name, back)
	})
	add := remove.flags
	remove.flags = func(f *pflag.FlagSet) { add(f); f.BoolVar(&yes, "yes", false, "do not ask") }
	all := list
	all.use, all.short = "periodic", "Show and steer the periodic jobs"
	cmd := all.command(files)
	cmd.AddCommand(
		list.command(files),
		one("show", "Show one periodic job and its last pushes", "", showPeriodic).command(files),
		some("enable", "Have the ticks of periodic jobs push again", "enabling a periodic job", func(ctx context.Context, s *cli.Session, p fleet.Periodic) error {
			return said(s, p.Enable(ctx), map[string]any{"name": p.Name, "disabled": false}, "%s is enabled: its next tick pushes, and those that have passed do not come again", p.Name)
		}).command(files),
		some("disable", "Have the ticks of periodic jobs push nothing", "disabling a periodic job", func(ctx context.Context, s *cli.Session, p fleet.Periodic) error {
			return said(s, p.Disable(ctx), map[string]any{"name": p.Name, "disabled": true}, "%s is disabled: its ticks push nothing", p.Name)
		}).command(files),
		one("push", "Push the job of a periodic job now, beside its ticks", "pushing a job", func(ctx context.Context, s *cli.Session, p fleet.Periodic) error {
			jid, err := p.Push(ctx)
			return said(s, err, map[string]any{"name": p.Name, "jid": jid}, "pushed %s to %s", jid, p.Queue)
		}).command(files),
		remove.command(files),
		addCommand(files),
	)
	return cmd
}

func namespace(space *string) func(f *pflag.FlagSet) {
	return func(f *pflag.FlagSet) {
		f.StringVarP(space, "namespace", "n", "", "its namespace in sidekiq-cron, - for none (the only one that has it)")
	}
}

// each does something to the periodic jobs that are named; a name that is not known is told first.
func each(ctx context.Context, s *cli.Session, names []string, space, verb string, do func(ctx context.Context, s *cli.Session, p fleet.Periodic) error) error {
	if len(names) == 0 {
		return cli.Exitf(cli.Fault, "no name is given, expected those of periodic jobs")
	}
	s.About([]string{"periodic", verb})
	if len(names) == 1 {
		s.About([]string{"periodic", names[0], verb})
	}
	jobs := make([]fleet.Periodic, len(names))
	for i, name := range names {
		p, err := s.PeriodicJob(ctx, name, space)
		if errors.Is(err, inspect.ErrNotFound) {
			return cli.Exitf(cli.NotFound, "no periodic job %q is known", name)
		} else if err != nil {
			return err
		}
		jobs[i] = p
	}
	for _, p := range jobs {
		if err := do(ctx, s, p); err != nil {
			return err
		}
	}
	return nil
}

func periodicNames(ctx context.Context, s *cli.Session) (names []string, err error) {
	jobs, err := s.Inspector.PeriodicJobs(ctx)
	for _, j := range jobs {
		names = append(names, j.Name)
	}
	return names, err
}

func listPeriodic(ctx context.Context, s *cli.Session, _ []string) error {
	rows, err := s.PeriodicJobs(ctx)
	if err != nil {
		return err
	}
	return cli.Rows(s, "NAME CRON CLASS QUEUE STATE NEXT LAST WHY", "there are no periodic jobs", rows, func(p fleet.Periodic) []string {
		return []string{p.Name, p.Cron, p.Class, p.Queue, p.State, words.At(p.Next), words.At(p.Pushed), p.Why}
	})
}

func showPeriodic(_ context.Context, s *cli.Session, p fleet.Periodic) (err error) {
	if s.JSON {
		return s.PrintJSON(p)
	}
	_, _ = fmt.Fprintf(s.Out, "%s: %s, %s\n", cli.Line(p.Name), cli.Line(p.Cron), p.State)
	var ticks []string
	for _, at := range p.Ticks {
		ticks = append(ticks, words.At(at))
	}
	last := ""
	if t := p.Last; t != nil {
		last = strings.TrimSpace(words.At(t.At) + " " + t.What + " " + t.JID)
	}
	for _, f := range [][2]string{
		{"why", p.Why}, {"description", p.Description}, {"class", p.Class}, {"queue", p.Queue}, {"args", string(p.Args)}, {"missed", string(p.Missed)}, {"overlap", string(p.Overlap)},
		{"tag", p.Tag}, {"namespace", p.Namespace}, {"next", strings.Join(ticks, ", ")}, {"last tick", last},
	} {
		if f[1] != "" {
			_, err = fmt.Fprintf(s.Out, "  %s\t%s\n", f[0], cli.Line(f[1]))
		}
	}
	for _, push := range p.Pushes {
		_, err = fmt.Fprintf(s.Out, "  pushed\t%s %s\n", words.At(push.At), cli.Line(push.JID))
	}
	return err
}

func addCommand(files cli.Files) *cobra.Command {
	var p troupe.Periodic
	var missed, overlap string
	return spec{
		use: "add NAME CLASS [ARG...]", short: "Add a periodic job, or change it", args: cli.Args(2, -1), change: "adding a periodic job",
		long: `Add makes a periodic job, or changes the one of this name; one that is disabled stays so. Each ARG is
JSON if it parses, else a string. It stays until it is deleted: no process takes it away. One that a
configuration has is changed there.`,
		example: "  troupe periodic add nightly Report --cron '0 4 * * * Europe/Berlin' --missed last\n  troupe periodic add poll Feed '{\"url\":\"https://x\"}' --cron 'every 15m' --queue low",
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&p.Cron, "cron", "", "the line: 5 or 6 fields and a zone, @daily, or every 15m")
			_ = cobra.MarkFlagRequired(f, "cron")
			f.StringVar(&p.Queue, "queue", "", "queue to push to (default)")
			f.StringVar(&p.Description, "description", "", "for people")
			f.StringVar(&missed, "missed", "", "what becomes of missed ticks: skip, last or all (skip)")
			f.StringVar(&overlap, "overlap", "", "skip: push nothing while the job of an earlier tick waits or runs")
			f.BoolVar(&p.Once, "once", false, "in the hour that a clock repeats push once, and right after the one it leaves out")
			namespace(&p.Namespace)(f)
		},
		run: func(ctx context.Context, s *cli.Session, args []string) error {
			p := p
			list, err := cli.Arguments(args[2:])
			if err != nil {
				return &cli.ExitError{Code: cli.Fault, Err: err}
			}
			p.Name, p.Class, p.Args, p.Missed = args[0], args[1], list, troupe.Missed(missed)
			p.Overlap = troupe.Overlap(overlap)
			if err := periodic.Check(p, nil); err != nil {
				return cli.Exitf(cli.Fault, "periodic job %q: %w", p.Name, err)
			}
			s.About([]string{"periodic", p.Name, "add"})
			was, err := s.PeriodicJob(ctx, p.Name, p.Namespace)
			switch {
			case err == nil && was.Tag != "":
				return cli.Exitf(cli.Refused, "%s is in the configuration of the processes with the tag %s, expected a change of that", p.Name, was.Tag)
			case err != nil && !errors.Is(err, inspect.ErrNotFound):
				return err
			case err == nil:
				p.Namespace = cmp.Or(p.Namespace, was.Namespace)
			}
			if err := s.Inspector.SavePeriodic(ctx, p); err != nil {
				return err
			}
			now, err := s.PeriodicJob(ctx, p.Name, p.Namespace)
			if err != nil {
				return err
			}
			next := words.At(now.Next)
			return said(s, nil, map[string]any{"name": p.Name, "state": now.State, "next": next}, "%s is %s, its next tick: %s", p.Name, now.State, cmp.Or(next, "none"))
		},
	}.command(files)
}
