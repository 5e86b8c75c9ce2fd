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

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/cli"
	"github.com/troupehq/troupe/internal/control"
)

// Commands are all of them.
func Commands() []*cobra.Command {
	return []*cobra.Command{
		statsCommand(), psCommand(), treeCommand(), queuesCommand(), jobsCommand(), eventsCommand(),
		quietCommand(), stopCommand(), dumpCommand(), configureCommand(), doctorCommand(), explainCommand(),
	}
}

// command makes a command of a session.
func command(use, short, long string, args cobra.PositionalArgs, run func(ctx context.Context, s *cli.Session, args []string) error) *cobra.Command {
	var flags cli.Flags
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			return flags.Run(cmd, func(ctx context.Context, s *cli.Session) error { return run(ctx, s, args) })
		},
	}
	flags.Add(cmd)
	return cmd
}

// brief is a time span for people: "3s", "12m", "5h", "9d"; "" for none.
func brief(d time.Duration) string {
	switch {
	case d <= 0:
		return "0s"
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + "s"
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + "h"
	}
	return strconv.Itoa(int(d.Hours()/24)) + "d"
}

// at is a time for people, "" for none.
func at(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

func number[T int | int64](n T) string { return strconv.FormatInt(int64(n), 10) }

// seconds is a time span in JSON.
func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }

// chosen are the processes that a command is for: those named, or all.
func chosen(ctx context.Context, s *cli.Session, ids []string, all bool) ([]*inspect.Process, error) {
	if all == (len(ids) > 0) {
		return nil, cli.Exitf(cli.Fault, "%d processes are named and --all is %v, expected one of the two", len(ids), all)
	}
	processes, err := s.Inspector.Processes(ctx)
	if err != nil {
		return nil, err
	}
	if all {
		if len(processes) == 0 {
			return nil, cli.Exitf(cli.NotFound, "no process runs")
		}
		return processes, nil
	}
	var found []*inspect.Process
	for _, id := range ids {
		at := slices.IndexFunc(processes, func(p *inspect.Process) bool { return p.Identity == id })
		if at < 0 {
			return nil, cli.Exitf(cli.NotFound, "no process %q runs, expected one of: %s", id, strings.Join(identities(processes), " "))
		}
		found = append(found, processes[at])
	}
	return found, nil
}

func identities(processes []*inspect.Process) (ids []string) {
	for _, p := range processes {
		ids = append(ids, p.Identity)
	}
	return ids
}

// completeProcesses completes identities on the command line.
func completeProcesses(flags *cli.Flags) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) (names []string, _ cobra.ShellCompDirective) {
		_ = flags.Run(cmd, func(ctx context.Context, s *cli.Session) error {
			processes, err := s.Inspector.Processes(ctx)
			names = identities(processes)
			return err
		})
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// watch repeats show, each time on a cleared screen, until the context ends; once for 0.
func watch(ctx context.Context, s *cli.Session, every time.Duration, show func() error) error {
	for {
		if every > 0 && s.Terminal {
			_, _ = fmt.Fprint(s.Out, "\x1b[H\x1b[2J")
		}
		if err := show(); err != nil || every <= 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
}

// freshTime is how long a view waits for processes to publish what is so now.
const freshTime = time.Second

// fresh has processes of troupe publish what is so now, and waits for that; with --read-only, and
// for those that do not answer, what their last beat told is shown.
func fresh(ctx context.Context, s *cli.Session, processes []*inspect.Process) error {
	if s.ReadOnly {
		return nil
	}
	ours, err := control.Troupes(ctx, s.Redis, identities(processes))
	if err != nil {
		return err
	}
	call, cancel := context.WithTimeout(ctx, freshTime)
	defer cancel()
	if err := control.Send(call, s.Redis, ours, control.Request{Do: control.Look}, func(control.Reply) bool { return true }); err != nil && !errors.Is(err, control.ErrNoReply) {
		return err
	}
	return nil
}
