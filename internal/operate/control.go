package operate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/config"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/cli"
	"github.com/troupehq/troupe/internal/control"
)

// replyTime is how long processes have to answer: those of troupe do at once.
const replyTime = 15 * time.Second

// signalCommand makes a command that tells processes something and may wait until it is so.
func signalCommand(use, short, long string, tell func(ctx context.Context, p *inspect.Process) error, is func(p *inspect.Process) bool, done string) *cobra.Command {
	var flags cli.Flags
	var all bool
	var wait time.Duration
	cmd := &cobra.Command{
		Use: use + " (ID... | --all)", Short: short, Long: long,
		ValidArgsFunction: completeProcesses(&flags),
		RunE: func(cmd *cobra.Command, args []string) error {
			return flags.Run(cmd, func(ctx context.Context, s *cli.Session) error {
				if err := s.Change(use); err != nil {
					return err
				}
				processes, err := chosen(ctx, s, args, all)
				if err != nil {
					return err
				}
				var refused []error
				var told []string
				for _, p := range processes {
					switch err := tell(ctx, p); {
					case errors.Is(err, inspect.ErrEmbedded):
						refused = append(refused, err)
					case err != nil:
						return err
					default:
						told = append(told, p.Identity)
					}
				}
				if err := control.Wake(ctx, s.Redis, told...); err != nil {
					return err
				}
				left, err := await(ctx, s, told, wait, is)
				if err != nil {
					return err
				}
				for _, id := range told {
					if err := report(s, id, left, wait, done); err != nil {
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
			})
		},
	}
	f := cmd.Flags()
	f.BoolVar(&all, "all", false, "all processes")
	if is != nil {
		f.DurationVar(&wait, "wait", 0, "wait so long until it is so, as in --wait=40s")
	}
	flags.Add(cmd)
	return cmd
}

func report(s *cli.Session, id string, left []string, wait time.Duration, done string) error {
	state := "told"
	if wait > 0 {
		state = done
	}
	for _, l := range left {
		if l == id {
			state = "told, not yet " + done
		}
	}
	if s.JSON {
		return s.PrintJSON(map[string]string{"identity": id, "state": state})
	}
	_, err := fmt.Fprintf(s.Out, "%s: %s\n", cli.Line(id), state)
	return err
}

// await waits until something is so of all processes, and returns those of which it is not. A
// process that is gone is nil.
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

func quietCommand() *cobra.Command {
	return signalCommand("quiet", "Have processes fetch nothing more", `Quiet has processes take no new jobs; what runs goes on. There is no way back but a restart. Processes
of troupe hear of it at once, those of Ruby at their next beat, within 10 s.`,
		func(ctx context.Context, p *inspect.Process) error { return p.Quiet(ctx) },
		func(p *inspect.Process) bool { return p == nil || p.Stopping }, "quiet")
}

func stopCommand() *cobra.Command {
	return signalCommand("stop", "Have processes stop", `Stop has processes take no new jobs, give running ones the time of their timeout (25 s by default),
put back what still runs, and end.`,
		func(ctx context.Context, p *inspect.Process) error { return p.Stop(ctx) },
		func(p *inspect.Process) bool { return p == nil }, "gone")
}

func dumpCommand() *cobra.Command {
	return signalCommand("dump", "Have processes log what they do", `Dump has processes write the stacks of all their goroutines or threads to their logs, and those of
troupe their supervision tree.`,
		func(ctx context.Context, p *inspect.Process) error { return p.DumpThreads(ctx) }, nil, "")
}

func configureCommand() *cobra.Command {
	var flags cli.Flags
	var all bool
	var capsule string
	var concurrency int
	var queues []string
	cmd := &cobra.Command{
		Use:   "configure (ID... | --all)",
		Short: "Change concurrency and queues of running processes",
		Long: `Configure changes a capsule of running processes of troupe until their next restart: how many
jobs it runs at once, and its queues with their weights. With less concurrency running jobs
end as they are. A process that cannot do it says why and changes nothing.`,
		Example:           "  troupe configure --all --concurrency 20\n  troupe configure web-1:9:ab --queue critical,3 --queue default",
		ValidArgsFunction: completeProcesses(&flags),
		RunE: func(cmd *cobra.Command, args []string) error {
			r := control.Request{Do: control.Configure, Capsule: capsule, Concurrency: concurrency}
			if len(queues) > 0 {
				parsed, err := config.ParseQueues("--queue", queues)
				if err != nil {
					return err
				}
				for _, q := range parsed.List() {
					r.Queues = append(r.Queues, control.QueueWeight{Queue: q.Queue, Weight: q.Weight})
				}
			}
			if concurrency < 0 || concurrency == 0 && r.Queues == nil {
				return cli.Exitf(cli.Fault, "--concurrency is %d and no --queue is given, expected a number from 1, or queues", concurrency)
			}
			return flags.Run(cmd, func(ctx context.Context, s *cli.Session) error { return configure(ctx, s, args, all, r) })
		},
	}
	f := cmd.Flags()
	f.BoolVar(&all, "all", false, "all processes of troupe")
	f.StringVar(&capsule, "capsule", "", "name of the capsule (the only one)")
	f.IntVar(&concurrency, "concurrency", 0, "jobs at once (as it is)")
	f.StringArrayVarP(&queues, "queue", "q", nil, "queue NAME[,WEIGHT], repeatable (as they are)")
	flags.Add(cmd)
	return cmd
}

func configure(ctx context.Context, s *cli.Session, args []string, all bool, r control.Request) error {
	if err := s.Change("configure"); err != nil {
		return err
	}
	processes, err := chosen(ctx, s, args, all)
	if err != nil {
		return err
	}
	ours, err := control.Troupes(ctx, s.Redis, identities(processes))
	if err != nil {
		return err
	}
	if len(ours) == 0 || !all && len(ours) < len(processes) {
		return cli.Exitf(cli.Refused, "only processes of troupe can be configured, and %d of %d are", len(ours), len(processes))
	}
	call, cancel := context.WithTimeout(ctx, replyTime)
	defer cancel()
	refused := 0
	err = control.Send(call, s.Redis, ours, r, func(reply control.Reply) bool {
		if reply.Result != control.Done {
			refused++
		}
		if s.JSON {
			_ = s.PrintJSON(reply)
			return true
		}
		_, _ = fmt.Fprintf(s.Out, "%s\n", cli.Line(strings.TrimSuffix(reply.Process+": "+reply.Result+": "+reply.Why, ": ")))
		return true
	})
	switch {
	case errors.Is(err, control.ErrNoReply):
		return &cli.ExitError{Code: cli.Partly, Err: err}
	case err != nil:
		return err
	case refused > 0:
		return cli.Exitf(cli.Refused, "%d of %d processes have refused", refused, len(ours))
	}
	return nil
}
