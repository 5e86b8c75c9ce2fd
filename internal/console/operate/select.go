package operate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/words"
)

// selection is how a command is told which processes it is for: by their names, by what they have
// in common, or all.
type selection struct {
	all, dryRun         bool
	hosts, tags, builds []string
}

const selectUse = " (ID... | --all | --host H | --tag T | --version V)"

func (c *selection) add(f *pflag.FlagSet, of string) {
	f.BoolVar(&c.all, "all", false, "all processes"+of)
	f.StringArrayVar(&c.hosts, "host", nil, "those on this host, repeatable; with --tag and --version those that meet each")
	f.StringArrayVar(&c.tags, "tag", nil, "those with this tag, repeatable")
	f.StringArrayVar(&c.builds, "version", nil, "those of this version, as ps shows it, repeatable")
	f.BoolVar(&c.dryRun, "dry-run", false, "tell which they are, and do nothing")
}

// processes are those that a command is for.
func (c *selection) processes(ctx context.Context, s *cli.Session, ids []string) ([]fleet.Process, error) {
	wanted := fleet.Selection{"host": c.hosts, "tag": c.tags, "version": c.builds}
	if c.all && !wanted.Empty() || len(ids) > 0 && !wanted.Empty() {
		return nil, cli.Exitf(cli.Fault, "%s named, --all is %v, and there is --host, --tag or --version, expected one of the three", words.Plural(len(ids), "process"), c.all)
	}
	processes, err := chosen(ctx, s, ids, c.all || !wanted.Empty())
	if err != nil {
		return nil, err
	}
	live := slices.Clone(processes)
	processes = slices.DeleteFunc(processes, func(p fleet.Process) bool { return !wanted.Matches(&p) })
	if len(processes) == 0 {
		return nil, cli.Exitf(cli.NotFound, "no process is like that, expected one of the %s", common(live))
	}
	return processes, nil
}

// common tells the hosts, tags and versions of processes.
func common(processes []fleet.Process) string {
	var parts []string
	for _, by := range []string{"host", "tag", "version"} {
		values := map[string]bool{}
		for i := range processes {
			values[fmt.Sprintf("%q", fleet.Groups[by](&processes[i]))] = true
		}
		parts = append(parts, by+"s "+strings.Join(slices.Sorted(maps.Keys(values)), ", "))
	}
	return strings.Join(parts, "; ")
}

// would tells which processes a command is for.
func (c *selection) would(s *cli.Session, verb string, processes []fleet.Process) error {
	if !s.JSON {
		_, _ = fmt.Fprintf(s.Out, "%s would be for %s\n", verb, words.Plural(len(processes), "process"))
	}
	return cli.Rows(s, "IDENTITY HOST TAG VERSION PHASE", "", processes, func(p fleet.Process) []string {
		return []string{shorten(p.Identity), shorten(p.Host()), shorten(p.Tag), shorten(p.Version), p.Phase}
	})
}
