package operate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/control"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/words"
)

// replyTime is how long processes have to answer: those of troupe do at once.
const replyTime = 15 * time.Second

// signalCommand makes a command that tells processes something and may wait until it is so: is
// takes nil for a process that is gone.
func signalCommand(files cli.Files, use, short, long string, tell func(p *inspect.Process, ctx context.Context) error, is func(p *inspect.Process) bool, done string) *cobra.Command {
	var which selection
	var wait time.Duration
	return spec{
		use: use + selectUse, short: short, long: long, change: use, dryRun: &which.dryRun, names: processNames,
		flags: func(f *pflag.FlagSet) {
			which.add(f, "")
			if is != nil {
				f.Var(cli.Span(&wait), "wait", "wait so long until it is so, as in --wait=40s")
			}
		},
		run: func(ctx context.Context, s *cli.Session, args []string) error {
			processes, err := which.processes(ctx, s, args)
			if err == nil && which.dryRun {
				return which.would(s, use, processes)
			}
			if err != nil {
				return err
			}
			s.About(aboutProcesses(args, use))
			told, refused, err := s.Tell(ctx, processes, tell)
			if err != nil {
				return err
			}
			left, err := await(ctx, s, told, wait, is)
			if err != nil {
				return err
			}
			for _, id := range told {
				state := "told"
				switch {
				case slices.Contains(left, id):
					state = "told, not yet " + done
				case wait > 0:
					state = done
				}
				if err := said(s, nil, map[string]string{"identity": id, "state": state}, "%s: %s", id, state); err != nil {
					return err
				}
			}
			switch {
			case len(refused) > 0:
				return &cli.ExitError{Code: cli.Refused, Err: errors.Join(refused...)}
			case len(left) > 0:
				return cli.Exitf(cli.Partly, "after %s not yet %s: %s", wait, done, strings.Join(left, " "))
			}
			return nil
		},
	}.command(files)
}

// aboutProcesses is the page of the process that is named, or of all.
func aboutProcesses(ids []string, verb string) []string {
	if len(ids) == 1 {
		return []string{"processes", ids[0], verb}
	}
	return []string{"processes", verb}
}

// await waits until something is so of all processes, and returns those of which it is not.
func await(ctx context.Context, s *cli.Session, ids []string, wait time.Duration, is func(p *inspect.Process) bool) (left []string, err error) {
	if wait <= 0 || is == nil {
		return nil, nil
	}
	for end := time.Now().Add(wait); ; {
		left = nil
		for _, id := range ids {
			p, err := s.Inspector.Process(ctx, id)
			if err != nil && !errors.Is(err, inspect.ErrNotFound) {
				return nil, err
			}
			if !is(p) {
				left = append(left, id)
			}
		}
		if len(left) == 0 || time.Now().After(end) {
			return left, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func quietCommand(files cli.Files) *cobra.Command {
	return signalCommand(files, "quiet", "Have processes fetch nothing more", `Quiet has processes take no new jobs; what runs goes on. There is no way back but a restart. Processes
of troupe hear of it at once, those of Ruby at their next beat, within 10 s.`,
		(*inspect.Process).Quiet,
		func(p *inspect.Process) bool { return p == nil || p.Stopping }, "quiet")
}

func stopCommand(files cli.Files) *cobra.Command {
	return signalCommand(files, "stop", "Have processes stop", `Stop has processes take no new jobs, give running ones the time of their timeout (`+words.Seconds(limits.Timeout)+` by default),
put back what still runs, and end.`,
		(*inspect.Process).Stop,
		func(p *inspect.Process) bool { return p == nil }, "gone")
}

func dumpCommand(files cli.Files) *cobra.Command {
	return signalCommand(files, "dump", "Have processes log what they do", `Dump has processes write the stacks of all their goroutines or threads to their logs, and those of
troupe their supervision tree.`,
		(*inspect.Process).DumpThreads, nil, "")
}

func configureCommand(files cli.Files) *cobra.Command {
	var which selection
	var r control.Request
	var queues []string
	return spec{
		use: "configure" + selectUse, short: "Change concurrency and queues of running processes", change: "configure", dryRun: &which.dryRun, names: processNames,
		long: `Configure changes a capsule of running processes of troupe until their next restart: how many
jobs it runs at once, and its queues with their weights: all of them, for it leaves those that
are not named. With less concurrency running jobs end as they are. A process that cannot do it
says why and changes nothing.`,
		example: "  troupe configure --all --concurrency 20\n  troupe configure --tag shop --version 0.2.0 --concurrency 20 --dry-run\n  troupe configure web-1:9:ab --queue critical,3 --queue default",
		flags: func(f *pflag.FlagSet) {
			which.add(f, " of troupe")
			f.StringVar(&r.Capsule, "capsule", "", "name of the capsule (the only one)")
			f.VarP(cli.Number(&r.Concurrency, 1, limits.MaxConcurrency), "concurrency", "c", "jobs at once (as it is)")
			f.StringArrayVarP(&queues, "queue", "q", nil, "queue NAME[,WEIGHT], repeatable (as they are)")
		},
		run: func(ctx context.Context, s *cli.Session, args []string) error {
			r := r
			r.Do = control.Configure
			if len(queues) > 0 {
				var err error
				if r.Queues, err = files.Queues("--queue", queues); err != nil {
					return err
				}
			}
			if r.Concurrency == 0 && r.Queues == nil {
				return cli.Exitf(cli.Fault, "nothing to change is given, expected --concurrency or --queue")
			}
			return configure(ctx, s, args, &which, r)
		},
	}.command(files)
}

func configure(ctx context.Context, s *cli.Session, args []string, which *selection, r control.Request) error {
	processes, err := which.processes(ctx, s, args)
	if err != nil {
		return err
	}
	s.About(aboutProcesses(args, "configure"))
	ours := fleet.Ours(processes)
	if len(ours) == 0 || len(args) > 0 && len(ours) < len(processes) {
		return cli.Exitf(cli.Refused, "only processes of troupe can be configured, and %d of %d are", len(ours), len(processes))
	}
	if which.dryRun {
		return which.would(s, "configure", slices.DeleteFunc(processes, func(p fleet.Process) bool { return !slices.Contains(ours, p.Identity) }))
	}
	call, cancel := context.WithTimeout(ctx, replyTime)
	defer cancel()
	refused := 0
	var printed error
	err = control.Send(call, s.Redis, ours, r, func(reply control.Reply) bool {
		if reply.Result != control.Done {
			refused++
		}
		printed = said(s, printed, reply, "%s", strings.TrimSuffix(reply.Process+": "+reply.Result+": "+reply.Why, ": "))
		return true
	})
	err = cmp.Or(err, printed)
	switch {
	case errors.Is(err, control.ErrNoReply):
		return &cli.ExitError{Code: cli.Partly, Err: err}
	case err != nil:
		return err
	case refused > 0:
		return cli.Exitf(cli.Refused, "%d of %s refused", refused, words.Plural(len(ours), "process"))
	}
	return nil
}
