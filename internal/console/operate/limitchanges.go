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

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/console/mask"
	rules "github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/words"
)

// changeFlags are the flags of what changes limits and batches.
type changeFlags struct {
	reason string
	yes    bool
}

func (c *changeFlags) add(f *pflag.FlagSet) {
	f.StringVar(&c.reason, "reason", "", "why, for the audit")
	_ = cobra.MarkFlagRequired(f, "reason")
	f.BoolVar(&c.yes, "yes", false, "do not ask")
}

// limitChange is what a command changes of a limit.
type limitChange struct {
	limit string // for the audit, which others read
	n     int64  // of jobs that it is about
	ask   string // what is to be done
	do    func() (told map[string]any, text string, err error)
}

// limitCommand is a command that changes a limit: with a reason, and asking before.
func limitCommand(files cli.Files, of spec, plan func(ctx context.Context, s *cli.Session, args []string) (limitChange, error)) *cobra.Command {
	verb, _, _ := strings.Cut(of.use, " ")
	c, flags := changeFlags{}, of.flags
	of.long += " The reason is kept in the audit.\nOn a terminal it asks, or wants --yes."
	of.names = limitNames
	of.flags = func(f *pflag.FlagSet) {
		if flags != nil {
			flags(f)
		}
		c.add(f)
	}
	of.run = func(ctx context.Context, s *cli.Session, args []string) error {
		to, err := plan(ctx, s, args)
		if err != nil {
			return err
		}
		s.About([]string{"limits", to.limit, verb})
		if err := s.Confirm(ctx, cli.Ask{Yes: c.yes, N: to.n, Always: true}, "%s", to.ask); err != nil {
			return err
		}
		told, text, err := to.do()
		if errors.Is(err, inspect.ErrNotFound) {
			return noLimit(args[0])
		}
		return said(s, err, told, "%s", text)
	}
	return of.command(files)
}

func noLimit(name string) error {
	return cli.Exitf(cli.NotFound, "no limit is named %q; troupe limits shows all", name)
}

func limitSetCommand(files cli.Files) *cobra.Command {
	return limitCommand(files, spec{
		use: "set NAME N|N/TIME [burst N]", short: "Set by hand what a limit allows", args: cli.Args(2, 4), change: "setting a limit",
		long: `Set sets by hand what a limit allows, for all processes and at once: so many jobs at once, or so many in a time, of which burst may start together
after a pause. 0 lets nobody in. It stays when processes start again or read their files again, until limits reset.`,
		example: "  troupe limits set payments-api 10/1m burst 3 --reason 'they are slow today'\n  troupe limits set reports 0 --reason 'the warehouse moves'",
	}, func(ctx context.Context, s *cli.Session, args []string) (limitChange, error) {
		to, err := inspect.ParseAllowance(strings.Join(args[1:], " "))
		if err != nil {
			return limitChange{}, &cli.ExitError{Code: cli.Fault, Err: err}
		}
		return limitChange{args[0], 1, fmt.Sprintf("have the limit %s allow %s", args[0], to), func() (map[string]any, string, error) {
			err := s.Inspector.SetLimit(ctx, args[0], to)
			return map[string]any{"limit": args[0], "allows": to.String()}, fmt.Sprintf("the limit %s allows %s", args[0], to), err
		}}, nil
	})
}

func limitResetCommand(files cli.Files) *cobra.Command {
	return limitCommand(files, spec{
		use: "reset NAME", short: "Have a limit allow what the configuration says", args: cli.Args(1, 1), change: "resetting a limit",
		long: `Reset ends what limits set has set. A limit that no configuration has is gone then, and lets nobody in.`,
	}, func(ctx context.Context, s *cli.Session, args []string) (limitChange, error) {
		return limitChange{args[0], 1, "reset the limit " + args[0], func() (map[string]any, string, error) {
			err := s.Inspector.ResetLimit(ctx, args[0])
			allows := inspect.Allowance{}.String()
			if all, _, unread := s.Inspector.Limit(ctx, args[0]); unread == nil {
				allows = all[0].Allows.String()
			}
			return map[string]any{"limit": args[0], "allows": allows}, fmt.Sprintf("the limit %s allows %s", args[0], allows), err
		}}, nil
	})
}

func limitReleaseCommand(files cli.Files) *cobra.Command {
	most := 0
	return limitCommand(files, spec{
		use: "release NAME|NAME:KEY", short: "Let held jobs in for which there is no room", args: cli.Args(1, 1), change: "releasing held jobs",
		long: `Release lets jobs in that a limit holds, though it has no room: the oldest of each key first. The limit is exceeded by as many. Those of a paused queue
go back to it.`,
		example: "  troupe limits release reports --limit 10 --reason 'they must be done by noon'",
		flags:   func(f *pflag.FlagSet) { f.Var(cli.Number(&most, 0, 0), "limit", "at most so many; 0 is all") },
	}, func(ctx context.Context, s *cli.Session, args []string) (c limitChange, err error) {
		all, err := limitsNamed(ctx, s, args[0])
		if err != nil {
			return c, err
		}
		held := int64(0)
		for _, l := range all {
			held += l.Held()
		}
		if held == 0 {
			return c, cli.Exitf(cli.NotFound, "the limit %s holds no job", args[0])
		}
		if most > 0 {
			held = min(held, int64(most))
		}
		shown := maskedRule(all[0].Name, args[0])
		return limitChange{shown, held, fmt.Sprintf("let %s in that the limit %s holds", words.Plural(held, "job"), shown), func() (map[string]any, string, error) {
			done, err := 0, error(nil)
			for _, l := range all {
				for _, r := range l.Rules {
					var n int
					if err == nil && int64(done) < held {
						n, err = r.Release(ctx, int(min(held-int64(done), r.Held)))
					}
					done += n
				}
			}
			return map[string]any{"limit": args[0], "released": done}, fmt.Sprintf("let %s in", words.Plural(done, "job")), err
		}}, nil
	})
}

// maskedRule is the name of a rule that somebody has given, for the audit.
func maskedRule(limit, given string) string {
	if key, ok := strings.CutPrefix(given, limit+":"); ok {
		return mask.New(mask.Mask, nil, nil).Rule(limit, key)
	}
	return given
}

func limitRestCommand(files cli.Files) *cobra.Command {
	return limitCommand(files, spec{
		use: "rest NAME|NAME:KEY TIME", short: "Have a limit with a breaker rest, or end its rest", args: cli.Args(2, 2), change: "a rest of a limit",
		long: `Rest has a limit with a breaker rest for a time from now on, in all processes: it lets nobody in, and jobs that run go on. When the time is over
it lets one job in, the probe, and the others when that is done. The time replaces that of a rest before, also a longer one. The time 0 ends the rest: the held jobs are
let in. A limit that counts by key has a rest for each key; 0 without a key ends those of all keys.`,
		example: "  troupe limits rest payments-api 15m --reason 'they restart'\n  troupe limits rest payments-api 0 --reason 'they are up again'",
	}, func(ctx context.Context, s *cli.Session, args []string) (c limitChange, err error) {
		d := time.Duration(0)
		if args[1] != "0" {
			if d, err = words.ParseDuration(args[1]); err != nil {
				return c, cli.Exitf(cli.Fault, "got the time %q, %w, or 0", args[1], err)
			}
		}
		all, err := restOf(ctx, s, args[0], d)
		if err != nil {
			return c, err
		}
		shown := maskedRule(all[0].Name, args[0])
		c = limitChange{shown, 1, fmt.Sprintf("have the limit %s rest for %s", shown, d), nil}
		if d == 0 {
			c.ask = "end the rest of the limit " + shown
		}
		c.do = func() (map[string]any, string, error) {
			n, err := 0, error(nil)
			for _, r := range all {
				var changed bool
				if changed, err = r.Rest(ctx, d); err != nil {
					break
				}
				if changed {
					n++
				}
			}
			told := map[string]any{"limit": args[0], "changed": n}
			if d == 0 {
				return told, fmt.Sprintf("ended %s of the limit %s", words.Plural(n, "rest"), shown), err
			}
			until := time.Now().Add(d)
			told["rests_until"] = until
			return told, fmt.Sprintf("the limit %s %s", shown, words.Rests(until)), err
		}
		return c, nil
	})
}

// restOf are the rules of that name that can rest, or do and are to end that.
func restOf(ctx context.Context, s *cli.Session, name string, d time.Duration) (out []*inspect.LimitRule, err error) {
	all, err := limitsNamed(ctx, s, name)
	if err != nil {
		return nil, err
	}
	one, keyed := name == all[0].Name, false
	for _, l := range all {
		if !l.Allows.Breaker {
			return nil, cli.Exitf(cli.Refused, "the limit %s has no breaker, so that it does not rest; troupe limits set %s 0 has it let nobody in", l.Name, words.Word(l.Name))
		}
		keyed = keyed || slices.ContainsFunc(l.Rules, func(r *inspect.LimitRule) bool { return strings.Contains(r.ID, ":") })
	}
	if d > 0 && one {
		if keyed {
			return nil, cli.Exitf(cli.Fault, "the limit %s counts by key, expected NAME:KEY; troupe limits set %s 0 has all keys let nobody in", name, words.Word(name))
		}
		if all, err = s.Inspector.LimitRule(ctx, rules.RuleName(name)); err != nil {
			return nil, err
		}
	}
	for _, l := range all {
		for _, r := range l.Rules {
			if d > 0 || !r.Rests.IsZero() {
				out = append(out, r)
			}
		}
	}
	if len(out) == 0 {
		return nil, cli.Exitf(cli.NotFound, "the limit %s does not rest", name)
	}
	return out, nil
}
