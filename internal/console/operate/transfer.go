package operate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/bulk"
	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/console/mask"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/words"
)

// queueKeys complete arguments: queue:NAME.
func queueKeys(ctx context.Context, s *cli.Session) (names []string, err error) {
	names, err = queueNames(ctx, s)
	for i, name := range names {
		names[i] = "queue:" + name
	}
	return names, err
}

func exportCommand(files cli.Files) *cobra.Command {
	var filter filterFlags
	return spec{
		use: "export SET|queue:NAME", short: "Write jobs as lines of JSON", args: cli.Args(1, 1), words: bulk.Sets, names: queueKeys,
		long: `Export writes the jobs of a set in the order of list, or of a queue, the next one taken first: one
object a line, with set and score or queue, and the exact bytes of the job as a string (in
job_base64 if they are not UTF-8). It changes nothing.

Import takes lines of an export with --args show. Without it what looks secret is masked, and
import refuses such lines.`,
		example: "  troupe jobs export dead --error 502 --args show > dead.jsonl\n  troupe jobs export queue:default --class Report | jq -r .job",
		flags:   func(f *pflag.FlagSet) { filter.add(f) },
		run: func(ctx context.Context, s *cli.Session, args []string) error {
			f, err := filter.read(s, args[0], time.Now())
			if err != nil {
				return err
			}
			queue, ok := strings.CutPrefix(args[0], "queue:")
			if _, err := setOf(s, args[0]); err != nil && !ok {
				return err
			}
			if s.Args != mask.Show {
				_, _ = fmt.Fprintln(s.Err, "troupe: warning: what looks secret is masked, and import refuses such lines: see --args show")
			}
			s.Inspector.MaxRead = 0 // an export has the whole job
			n := 0
			var printed error
			if err := walk(ctx, s, args[0], (*inspect.Queue).OldestFirst, func(r *inspect.JobRecord, when time.Time, score float64) bool {
				if !f.Match(r, when) {
					return true
				}
				l := bulk.Line{Set: args[0], Score: scores.Format(score)}
				if ok {
					l = bulk.Line{Queue: queue}
				}
				l.Put(s.Mask.Bytes(r), s.Args != mask.Show)
				printed = s.PrintJSON(&l)
				n++
				return printed == nil
			}); err != nil || printed != nil || n > 0 {
				return cmp.Or(err, printed)
			}
			return noJobs(ctx, s, args[0])
		},
	}.command(files)
}

func importCommand(files cli.Files) *cobra.Command {
	var dryRun, yes bool
	rate := 1000
	return spec{
		use: "import FILE|-", short: "Put exported jobs back", args: cli.Args(1, 1),
		long: `Import puts the jobs of an export back: into their sets with their scores, into their queues at the
end that is taken last. Their bytes stay as they are. A job that is there already is gone, in the
counts: in a set one with the same bytes, in a queue as many as stood there when import came to
it. All lines of a file are checked before anything is changed; those of - (the standard input)
as they come. Above 100 jobs it wants the number typed, or --yes, and for - always --yes. Ctrl-C
ends it between two jobs.`,
		example: "  troupe jobs import dead.jsonl --dry-run\n  troupe jobs export dead --args show --redis redis://old:6379 | troupe jobs import - --yes --redis redis://new:6379",
		flags: func(f *pflag.FlagSet) {
			f.BoolVar(&dryRun, "dry-run", false, "check the lines, tell how many there are, and do nothing")
			f.BoolVar(&yes, "yes", false, "do not ask")
			f.Var(cli.Number(&rate, 0, 0), "rate", "at most so many a second; 0 is as fast as it goes")
		},
		run: func(ctx context.Context, s *cli.Session, args []string) error {
			in, again := s.In, func() error { return nil }
			if args[0] != "-" {
				file, err := os.Open(args[0])
				if err != nil {
					return &cli.ExitError{Code: cli.Fault, Err: err}
				}
				defer func() { _ = file.Close() }()
				in, again = file, func() error { _, err := file.Seek(0, io.SeekStart); return err }
			}
			total := 0
			if dryRun || args[0] != "-" {
				for _, err := range bulk.Lines(in) {
					if err := cmp.Or(err, ctx.Err()); err != nil {
						return &cli.ExitError{Code: cli.Fault, Err: err}
					}
					total++
				}
				switch {
				case total == 0:
					s.Note("%s has no jobs", args[0])
					return nil
				case dryRun:
					return said(s, nil, map[string]int{"matches": total}, "%s would be imported", words.Plural(total, "job"))
				}
			} else if !yes {
				return cli.Exitf(cli.Refused, "to import from the standard input, --yes is needed")
			}
			if err := cmp.Or(s.May(ctx, "import of jobs"), again()); err != nil {
				return err
			}
			if err := s.Confirm(ctx, cli.Ask{Yes: yes, N: int64(total)}, "import %s", words.Plural(total, "job")); err != nil {
				return err
			}
			s.Told("from "+args[0], nil)
			counts, err := bulk.Import(ctx, s.Redis, s.Inspector, bulk.Lines(in), rate, progress(s, total))
			return counted(s, "imported", total, counts, err)
		},
	}.command(files)
}
