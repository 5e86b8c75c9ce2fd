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

	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/tree"
	"github.com/troupehq/troupe/internal/words"
)

func psCommand(files cli.Files) *cobra.Command {
	var every time.Duration
	var trouble bool
	show := func(ctx context.Context, s *cli.Session) error {
		processes, err := s.Processes(ctx)
		if err != nil {
			return err
		}
		none := "no process runs"
		if trouble {
			processes = slices.DeleteFunc(processes, func(p fleet.Process) bool { return !p.Troubled() })
			none = "no process is in trouble"
		}
		return cli.Rows(s, "IDENTITY TAG VERSION PHASE BUSY/SLOTS QUEUES RESTARTS UNRESPONSIVE RSS BEAT", none, processes, func(p fleet.Process) []string {
			return []string{
				shorten(p.Identity), shorten(p.Tag), shorten(p.Version), p.Phase, fmt.Sprintf("%d/%d", p.Busy, p.Slots), shorten(strings.Join(p.Queues, ",")),
				count(p.Restarts), count(p.Unresponsive), fmt.Sprintf("%d MB", p.RSS/1024), ago(p.Beat),
			}
		})
	}
	return spec{
		use: "ps", short: "Show the processes", args: cli.Args(0, 0),
		long: `Ps shows the processes that work on this Redis, those of Ruby too: how many jobs they run of how
many they can, their queues, and when they last gave a sign of life. Restarts of actors and
unresponsive jobs are known of troupe's own. A process that has died is shown as gone for 15 minutes.`,
		flags: func(f *pflag.FlagSet) {
			again(f, &every)
			f.BoolVar(&trouble, "trouble", false, "only those with something that is not as it should be")
		},
		run: func(ctx context.Context, s *cli.Session, _ []string) error {
			return watch(ctx, s, every, func() error { return show(ctx, s) })
		},
	}.command(files)
}

// ago tells how long ago something was, "never" for the zero time.
func ago(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return words.Since(t) + " ago"
}

func count(n *int) string {
	if n == nil {
		return ""
	}
	return number(*n)
}

func treeCommand(files cli.Files) *cobra.Command {
	var every time.Duration
	var trouble bool
	return spec{
		use: "tree [ID]", short: "Show the supervision tree of a process", args: cli.Args(0, 1), names: processNames,
		long: `Tree shows the actors of a process of troupe: their states, restarts and failures, and the jobs that
they run. Without ID it shows those of all processes. With --trouble it shows only what is not
as it should be; the text has the actors above that, too.`,
		flags: func(f *pflag.FlagSet) {
			again(f, &every)
			f.BoolVar(&trouble, "trouble", false, "only what is not as it should be")
		},
		run: func(ctx context.Context, s *cli.Session, args []string) error {
			return watch(ctx, s, every, func() error { return showTrees(ctx, s, args, trouble) })
		},
	}.command(files)
}

func showTrees(ctx context.Context, s *cli.Session, args []string, trouble bool) error {
	processes, err := chosen(ctx, s, args, len(args) == 0)
	if nothing, ok := errors.AsType[*cli.ExitError](err); ok && nothing.Code == cli.NotFound && len(args) == 0 {
		s.Note("%s", nothing.Error())
		return nil
	}
	if err == nil {
		_, err = fresh(ctx, s, processes)
	}
	if err != nil {
		return err
	}
	shown := false
	for _, p := range processes {
		t, err := s.Tree(ctx, p.Identity)
		if err != nil {
			return err
		}
		if t == nil && len(args) > 0 {
			return cli.Exitf(cli.NotFound, "%s has no tree: it is a process of Ruby, or too old", p.Identity)
		}
		if trouble {
			t = troubled(t, !s.JSON)
		}
		if len(t) == 0 {
			continue
		}
		shown = true
		if s.JSON {
			if err := s.PrintJSON(map[string]any{"identity": p.Identity, "beat": p.Beat, "tree": t}); err != nil {
				return err
			}
			continue
		}
		lines := []string{cli.Line(p.Identity)}
		for line := range strings.Lines(t.String()) {
			lines = append(lines, "  "+cli.Line(strings.TrimSuffix(line, "\n")))
		}
		if _, err := fmt.Fprintln(s.Out, strings.Join(lines, "\n")); err != nil {
			return err
		}
	}
	if !shown {
		s.Note("no process of troupe has such a tree")
	}
	return nil
}

// troubled are the actors of a tree that are not as they should be, and those above them if a
// person is to know whose they are.
func troubled(t tree.Tree, above bool) tree.Tree {
	var bad []string
	for _, n := range t {
		if fleet.Troubled(n) {
			bad = append(bad, n.Path+"/")
		}
	}
	return slices.DeleteFunc(t, func(n tree.Node) bool {
		path := n.Path + "/"
		return !slices.ContainsFunc(bad, func(b string) bool { return b == path || above && strings.HasPrefix(b, path) })
	})
}
