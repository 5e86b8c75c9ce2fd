package operate

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupehq/troupe/internal/console/audit"
	"github.com/troupehq/troupe/internal/console/bulk"
	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/words"
)

func auditCommand(files cli.Files) *cobra.Command {
	var f audit.Filter
	var since, until string
	limit := 50
	return spec{
		use: "audit [TEXT]", short: "Show who did what", args: cli.Args(0, 1),
		long: `Audit shows who has done what to jobs, queues and processes, or tried to, the last first: on the
dashboard and by its JSON, by commands, and on the screen of top. TEXT is a part of what was done:
an action, a queue, a job, a class. A command names the user of the system, or whom --as names.
Redis keeps the last 10,000 entries of 90 days.`,
		example: "  troupe audit --since 24h\n  troupe audit critical --user ann\n  troupe queues pause critical --as ann",
		flags: func(s *pflag.FlagSet) {
			s.StringVar(&f.User, "user", "", "only what this user did")
			s.Var(cli.OneOf(&f.Outcome, "done", "begun", "warning", "refused", "failed"), "outcome", "only what ended so: done, begun, warning, refused or failed")
			s.StringVar(&since, "since", "", "only what was done since: a time, or a span back like 1h")
			s.StringVar(&until, "until", "", "only what was done before")
			s.Var(cli.Number(&limit, 0, 0), "limit", "at most so many; 0 is all")
		},
		run: func(ctx context.Context, s *cli.Session, args []string) error {
			f := f
			f.Part = strings.Join(args, "")
			for _, t := range []struct {
				flag, text string
				to         *time.Time
			}{{"--since", since, &f.Since}, {"--until", until, &f.Until}} {
				if t.text == "" {
					continue
				}
				var err error
				if *t.to, err = bulk.ParseTime(t.text, time.Now()); err != nil {
					return fmt.Errorf("%s: %w", t.flag, err)
				}
			}
			all, err := audit.All(ctx, s.Redis)
			if err != nil {
				return err
			}
			var rows []audit.Entry
			for _, e := range all {
				if f.Match(&e) && (limit <= 0 || len(rows) < limit) {
					rows = append(rows, e)
				}
			}
			return cli.Rows(s, "WHEN USER VIA FROM ACTION OUTCOME JOBS SAID", "nobody did that", rows, func(e audit.Entry) []string {
				action := e.Action
				if e.Via == "" {
					action = e.Path
				}
				return []string{words.At(e.At), shorten(e.User), cmp.Or(e.Via, "dashboard"), shorten(e.Address), shorten(action), e.Outcome, shorten(strings.Join(e.Jobs, ",")), e.Text}
			})
		},
	}.command(files)
}
