package operate

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/words"
)

func locksCommand(files cli.Files) *cobra.Command {
	limit := 50
	list := spec{
		use: "list", short: "Show the locks of unique jobs", args: cli.Args(0, 0),
		long: `Locks shows the locks of unique jobs: the job that holds each, where that is now, how long ago it was pushed,
and in what time the lock ends by itself. While a lock is held, a push of a job that is the same is refused. A holder that is
nowhere is done, if its lock is held until a period is over; else the lock is in the way until it
ends, or is freed: locks free. It reads the names of all keys of Redis, and searches up to 100,000
jobs.`,
		flags: func(f *pflag.FlagSet) { f.Var(cli.Number(&limit, 0, 0), "limit", "at most so many; 0 is all") },
		run: func(ctx context.Context, s *cli.Session, _ []string) error {
			rows, more, err := s.Locks(ctx, limit, nil)
			if err != nil {
				return err
			}
			err = cli.Rows(s, "LOCK HOLDER CLASS WHERE SINCE ENDS-IN", "no lock is held", rows, func(l fleet.Lock) []string {
				return []string{l.Key, shorten(l.Holder), shorten(l.Class), l.Where(), words.Since(l.Since), endsIn(l.Ends)}
			})
			if more {
				s.Note("there are more: --limit 0 shows all")
			}
			return err
		},
	}
	all := list
	all.use, all.short = "locks", "Show and free the locks of unique jobs"
	cmd := all.command(files)
	cmd.AddCommand(list.command(files), freeCommand(files))
	return cmd
}

// endsIn is the time until then.
func endsIn(ends time.Time) string {
	if ends.IsZero() {
		return "never"
	}
	return words.Brief(max(0, time.Until(ends)))
}

func freeCommand(files cli.Files) *cobra.Command {
	var reason string
	var yes bool
	return spec{
		use: "free LOCK|JID", short: "Free the lock of a unique job", args: cli.Args(1, 1), names: lockNames, change: "freeing a lock",
		long: `Free frees a lock, or what a job holds, if the same job holds it still. The job stays where it is, and a
job that is the same can be pushed and run beside it. The reason is kept in the audit. On a terminal it
asks, or wants --yes.`,
		example: "  troupe locks free 8b7c2f0a9d1e4c5b6a79880f --reason 'Ruby has run it'",
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&reason, "reason", "", "why, for the audit")
			_ = cobra.MarkFlagRequired(f, "reason")
			f.BoolVar(&yes, "yes", false, "do not ask")
		},
		run: func(ctx context.Context, s *cli.Session, args []string) error {
			locks, err := locksOf(ctx, s, args[0])
			if err != nil {
				return err
			}
			for i := range locks {
				if err := freeLock(ctx, s, &locks[i], yes); err != nil {
					return err
				}
			}
			return nil
		},
	}.command(files)
}

// locksOf are the lock of that key, or those that the job holds.
func locksOf(ctx context.Context, s *cli.Session, name string) (locks []fleet.Lock, err error) {
	if strings.HasPrefix(name, keys.LockPrefix) {
		l, err := s.Inspector.Lock(ctx, name)
		if err == nil {
			locks = []fleet.Lock{fleet.LockOf(l)}
			err = s.Holders(ctx, locks)
		}
		if !errors.Is(err, inspect.ErrNotFound) {
			return locks, err
		}
	} else if locks, _, err = s.Locks(ctx, 0, func(l *inspect.Lock) bool { return l.Holder == name }); err != nil {
		return nil, err
	}
	if len(locks) == 0 {
		return nil, cli.Exitf(cli.NotFound, "no lock and no job that holds one is named %q", name)
	}
	return locks, nil
}

func freeLock(ctx context.Context, s *cli.Session, l *fleet.Lock, yes bool) error {
	s.About([]string{"locks", l.Key, "free"}, l.Holder)
	if err := s.Confirm(ctx, cli.Ask{Yes: yes, N: 1, Always: true}, "free the lock %s of the job %s (%s)", l.Key, l.Holder, l.Where()); err != nil {
		return err
	}
	outcome, err := l.Free(ctx)
	if err == nil && outcome != inspect.Done {
		return cli.Exitf(cli.NotFound, "the job %s does not hold the lock %s any more", l.Holder, l.Key)
	}
	return said(s, err, map[string]any{"lock": l.Key, "holder": l.Holder, "place": l.Place, "freed": true}, "freed %s, which the job %s held (%s)", l.Key, l.Holder, l.Where())
}

// lockNames complete an argument.
func lockNames(ctx context.Context, s *cli.Session) (names []string, err error) {
	const most = 100
	for l, err := range s.Inspector.Locks(ctx) {
		if err != nil || len(names) == most {
			return names, err
		}
		names = append(names, l.Key)
	}
	return names, nil
}
