// Package operate has the commands by which people look at a fleet and steer it: from Redis
// alone, whoever wrote there.
package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/words"
)

// Commands are all of them.
func Commands(files cli.Files) []*cobra.Command {
	return []*cobra.Command{
		statsCommand(files), psCommand(files), treeCommand(files), queuesCommand(files), jobsCommand(files), periodicCommand(files), locksCommand(files), limitsCommand(files), batchesCommand(files), eventsCommand(files), auditCommand(files),
		quietCommand(files), stopCommand(files), dumpCommand(files), configureCommand(files), doctorCommand(files), explainCommand(files), awaitCommand(files), topCommand(files), webCommand(files),
	}
}

// completion finds the words that a shell completes.
type completion func(ctx context.Context, s *cli.Session) ([]string, error)

// spec is a command of a session.
type spec struct {
	use, short, long, example string
	args                      cobra.PositionalArgs
	words                     []string               // that complete the first argument
	names                     completion             // that complete it, or all if args is nil
	flagNames                 map[string]completion  // that complete the values of flags
	flags                     func(f *pflag.FlagSet) // of its own, before those that all have; may be nil
	dryRun                    *bool                  // it changes nothing if this is true; may be nil
	change                    string                 // what it changes, for --read-only; "" for nothing
	run                       func(ctx context.Context, s *cli.Session, args []string) error
}

func (c spec) command(files cli.Files) *cobra.Command {
	flags := cli.Flags{Files: files}
	cmd := &cobra.Command{
		Use: c.use, Short: c.short, Long: c.long, Example: c.example, Args: c.args,
		RunE: func(cmd *cobra.Command, args []string) error {
			return flags.Run(cmd, func(ctx context.Context, s *cli.Session) error {
				if c.change != "" && (c.dryRun == nil || !*c.dryRun) {
					if err := s.May(ctx, c.change); err != nil {
						return err
					}
				}
				return c.run(ctx, s, args)
			})
		},
	}
	if c.args == nil {
		cmd.Args = cli.Args(0, -1)
	}
	cmd.Flags().SortFlags = false
	if c.flags != nil {
		c.flags(cmd.Flags())
	}
	flags.Add(cmd)
	for flag, names := range c.flagNames {
		_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return spec{names: names}.complete(cmd, &flags, nil), cobra.ShellCompDirectiveNoFileComp
		})
	}
	if c.words != nil || c.names != nil {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return c.complete(cmd, &flags, args), cobra.ShellCompDirectiveNoFileComp
		}
	}
	return cmd
}

// completionTime is how long a shell waits for names.
const completionTime = 2 * time.Second

// complete are the words for the next argument. It reads only, and errors give no words.
func (c spec) complete(cmd *cobra.Command, flags *cli.Flags, args []string) (words []string) {
	if c.args != nil && len(args) > 0 {
		return nil
	}
	if words = c.words; c.names != nil {
		_ = flags.Run(cmd, func(ctx context.Context, s *cli.Session) error {
			call, cancel := context.WithTimeout(ctx, completionTime)
			defer cancel()
			names, err := c.names(call, s)
			words = append(slices.Clone(words), names...)
			return err
		})
	}
	return slices.DeleteFunc(words, func(w string) bool { return slices.Contains(args, w) || cli.Line(w) != w })
}

// said tells what was done: the value as JSON, or a line.
func said(s *cli.Session, err error, value any, format string, args ...any) error {
	if err != nil {
		return err
	}
	text := fmt.Sprintf(format, args...)
	s.Told(text, nil)
	if s.JSON {
		return s.PrintJSON(value)
	}
	_, err = fmt.Fprintln(s.Out, cli.Line(text))
	return err
}

func number[T int | int64](n T) string { return strconv.FormatInt(int64(n), 10) }

// seconds is a time span in JSON.
func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }

// chosen are the processes that a command is for: those named, or all.
func chosen(ctx context.Context, s *cli.Session, ids []string, all bool) ([]fleet.Process, error) {
	if all == (len(ids) > 0) {
		return nil, cli.Exitf(cli.Fault, "%s named and --all is %v, expected one of the two", words.Plural(len(ids), "process"), all)
	}
	processes, err := s.Processes(ctx)
	if err != nil {
		return nil, err
	}
	processes = slices.DeleteFunc(processes, func(p fleet.Process) bool { return p.Phase == fleet.Gone })
	for _, id := range ids {
		if !slices.ContainsFunc(processes, func(p fleet.Process) bool { return p.Identity == id }) {
			return nil, cli.Exitf(cli.NotFound, "no process %q runs, expected one of: %s", id, strings.Join(identities(processes), " "))
		}
	}
	if len(processes) == 0 {
		return nil, cli.Exitf(cli.NotFound, "no process runs")
	}
	return slices.DeleteFunc(processes, func(p fleet.Process) bool { return !all && !slices.Contains(ids, p.Identity) }), nil
}

func identities(processes []fleet.Process) (ids []string) {
	for _, p := range processes {
		ids = append(ids, p.Identity)
	}
	return ids
}

// processNames and queueNames complete arguments.
func processNames(ctx context.Context, s *cli.Session) ([]string, error) {
	processes, err := chosen(ctx, s, nil, true)
	return identities(processes), err
}

func queueNames(ctx context.Context, s *cli.Session) (names []string, err error) {
	queues, err := s.Inspector.Queues(ctx)
	for _, q := range queues {
		names = append(names, q.Name)
	}
	return names, err
}

// again is a flag to show something again and again.
func again(f *pflag.FlagSet, every *time.Duration) {
	f.Var(cli.Span(every), "watch", "show it again and again, so often")
	f.Lookup("watch").NoOptDefVal = "2s"
}

// watch repeats show, each time on a cleared screen, until the context ends; once for 0. That
// there is nothing to show does not end it.
func watch(ctx context.Context, s *cli.Session, every time.Duration, show func() error) error {
	for {
		if every > 0 && s.Terminal && !s.JSON {
			_, _ = fmt.Fprint(s.Out, "\x1b[H\x1b[2J")
		}
		err := show()
		nothing, ok := errors.AsType[*cli.ExitError](err)
		if every == 0 || err != nil && (!ok || nothing.Code != cli.NotFound) {
			return err
		}
		if ok && nothing.Err != nil {
			_, _ = fmt.Fprintln(s.Err, cli.Line(nothing.Error()))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
}

// fresh has processes of troupe publish what is so now. With --read-only, and where Redis refuses
// that, since it is full say, asked is false, and what their last beat told is shown.
func fresh(ctx context.Context, s *cli.Session, processes []fleet.Process) (asked bool, err error) {
	if s.ReadOnly {
		return false, nil
	}
	if asked, err = s.Refresh(ctx, processes); err == nil && !asked {
		_, _ = fmt.Fprintln(s.Err, "troupe: note: of the last beats: Redis refuses the request to tell what is so now")
	}
	return asked, err
}
