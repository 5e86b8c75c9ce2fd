package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/cli"
)

// process is a row of ps.
type process struct {
	Identity     string    `json:"identity"`
	Tag          string    `json:"tag"`
	Version      string    `json:"version"`
	Phase        string    `json:"phase"` // running, quiet, stopping or silent
	Busy         int       `json:"busy"`
	Slots        int       `json:"slots"`
	Queues       []string  `json:"queues"`
	Restarts     *int      `json:"restarts"`     // of its actors; null for Ruby
	Unresponsive *int      `json:"unresponsive"` // jobs; null for Ruby
	RSS          int64     `json:"rss_kb"`
	Beat         time.Time `json:"beat"`
}

// silence is how long after its last beat a process counts as silent: two beats are missing.
const silence = 25 * time.Second

// treeOf is the published tree of a process; nil if it has none, as in Ruby.
func treeOf(ctx context.Context, i *inspect.Inspector, identity string) (actors.Tree, error) {
	text, err := i.Tree(ctx, identity)
	if errors.Is(err, inspect.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var t actors.Tree
	if err := json.Unmarshal(text, &t); err != nil {
		return nil, fmt.Errorf("the tree of %s: %w", identity, err)
	}
	return t, nil
}

func newProcess(p *inspect.Process, t actors.Tree, now time.Time) process {
	row := process{
		Identity: p.Identity, Tag: p.Tag, Version: p.Version, Phase: "running", Busy: p.Busy, Slots: p.Concurrency,
		Queues: p.Queues, RSS: p.RSS, Beat: p.Beat,
	}
	if p.Stopping {
		row.Phase = "quiet"
	}
	if t != nil {
		restarts, unresponsive := 0, 0
		for _, n := range t {
			restarts += n.Restarts
			unresponsive += len(n.Unresponsive)
		}
		row.Restarts, row.Unresponsive = &restarts, &unresponsive
	}
	if now.Sub(p.Beat) > silence {
		row.Phase = "silent"
	}
	return row
}

func psCommand() *cobra.Command {
	return command("ps", "Show the processes", `Ps shows the processes that work on this Redis, those of Ruby too: how many jobs they run of how
many they can, their queues, and when they last gave a sign of life. Restarts of actors and
unresponsive jobs are known of troupe's own.`, cobra.NoArgs, func(ctx context.Context, s *cli.Session, _ []string) error {
		processes, err := s.Inspector.Processes(ctx)
		if err != nil {
			return err
		}
		now := time.Now()
		t := s.Table("IDENTITY", "TAG", "VERSION", "PHASE", "BUSY/SLOTS", "QUEUES", "RESTARTS", "UNRESPONSIVE", "RSS", "BEAT")
		for _, p := range processes {
			tree, err := treeOf(ctx, s.Inspector, p.Identity)
			if err != nil {
				return err
			}
			row := newProcess(p, tree, now)
			if s.JSON {
				err = s.PrintJSON(row)
			} else {
				t.Row(row.Identity, row.Tag, row.Version, row.Phase, fmt.Sprintf("%d/%d", row.Busy, row.Slots), strings.Join(row.Queues, ","),
					count(row.Restarts), count(row.Unresponsive), fmt.Sprintf("%d MB", row.RSS/1024), brief(now.Sub(row.Beat))+" ago")
			}
			if err != nil {
				return err
			}
		}
		if len(processes) == 0 {
			return cli.Exitf(cli.NotFound, "no process runs")
		}
		if s.JSON {
			return nil
		}
		return t.Flush()
	})
}

func count(n *int) string {
	if n == nil {
		return ""
	}
	return number(*n)
}

func treeCommand() *cobra.Command {
	var flags cli.Flags
	var every time.Duration
	var trouble bool
	cmd := &cobra.Command{
		Use:   "tree [ID]",
		Short: "Show the supervision tree of a process",
		Long: `Tree shows the actors of a process of troupe as of its last beat: their states, restarts and
failures, and the jobs that they run. Without ID it shows those of all processes. With
--trouble it shows only what is not as it should be.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeProcesses(&flags),
		RunE: func(cmd *cobra.Command, args []string) error {
			return flags.Run(cmd, func(ctx context.Context, s *cli.Session) error {
				return watch(ctx, s, every, func() error { return showTrees(ctx, s, args, trouble) })
			})
		},
	}
	f := cmd.Flags()
	f.DurationVar(&every, "watch", 0, "show it again and again")
	f.Lookup("watch").NoOptDefVal = "2s"
	f.BoolVar(&trouble, "trouble", false, "only what is not as it should be")
	flags.Add(cmd)
	return cmd
}

// troubled tells whether an actor is not as it should be.
func troubled(n actors.Node) bool {
	fine := []actors.State{actors.StateRunning, actors.StateIdle, actors.StateBusy}
	return !slices.Contains(fine, n.State) || n.Restarts > 0 || n.LastFailure != "" || len(n.Unresponsive) > 0 || n.Note != ""
}

func showTrees(ctx context.Context, s *cli.Session, args []string, trouble bool) error {
	processes, err := chosen(ctx, s, args, len(args) == 0)
	if err != nil {
		return err
	}
	if err := fresh(ctx, s, processes); err != nil {
		return err
	}
	shown := false
	for _, p := range processes {
		t, err := treeOf(ctx, s.Inspector, p.Identity)
		if err != nil {
			return err
		}
		if trouble {
			t = slices.DeleteFunc(t, func(n actors.Node) bool { return !troubled(n) })
		}
		switch {
		case t == nil && len(args) > 0:
			return cli.Exitf(cli.NotFound, "%s has no tree: it is a process of Ruby, or too old", p.Identity)
		case len(t) == 0:
			continue
		case s.JSON:
			err = s.PrintJSON(map[string]any{"identity": p.Identity, "beat": p.Beat, "tree": t})
		default:
			lines := strings.Split(strings.TrimSuffix(t.String(), "\n"), "\n")
			_, err = fmt.Fprintf(s.Out, "%s\n", cli.Line(p.Identity))
			for i := 0; i < len(lines) && err == nil; i++ {
				_, err = fmt.Fprintf(s.Out, "  %s\n", cli.Line(lines[i]))
			}
		}
		if err != nil {
			return err
		}
		shown = true
	}
	if !shown {
		return cli.Exitf(cli.NotFound, "no process of troupe has such a tree")
	}
	return nil
}
