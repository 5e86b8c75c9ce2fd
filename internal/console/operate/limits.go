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

func limitsCommand(files cli.Files) *cobra.Command {
	list := spec{
		use: "list", short: "Show the limits", args: cli.Args(0, 0),
		long: `Limits shows the limits of classes and queues: what each allows, whether it was set by hand, how many slots are taken, how many
jobs it holds, and how old the oldest of them is. It reads the names of up to 200,000 keys of Redis. The jobs that are held:
jobs list held.`,
		run: func(ctx context.Context, s *cli.Session, _ []string) error {
			all, cut, err := s.Inspector.Limits(ctx)
			if err != nil {
				return err
			}
			if cut {
				s.Note("there are more rules or keys than were read: limits show NAME looks at one limit")
			}
			rows := make([]limit, len(all))
			for n, l := range all {
				rows[n] = limitOf(l)
			}
			return cli.Rows(s, "LIMIT ALLOWS SET-BY SLOTS HELD OLDEST", "there are no limits", rows, func(l limit) []string {
				return []string{shorten(l.title()), l.Allows, l.SetBy, number(l.Slots), number(l.Held), words.Since(l.Oldest)}
			})
		},
	}
	all := list
	all.use, all.short = "limits", "Show and set limits, and release the jobs that they hold"
	cmd := all.command(files)
	cmd.AddCommand(list.command(files), limitShowCommand(files), limitSetCommand(files), limitResetCommand(files), limitReleaseCommand(files))
	return cmd
}

// limit is a limit in JSON.
type limit struct {
	Name       string      `json:"limit"`
	Queue      string      `json:"queue,omitempty"` // whose it is on a Redis Cluster
	Allows     string      `json:"allows"`
	Configured string      `json:"configured,omitempty"` // what the configuration says, of one that was set by hand
	SetBy      string      `json:"set_by"`               // hand, configuration or nobody
	Slots      int64       `json:"slots"`
	Held       int64       `json:"held"`
	Oldest     time.Time   `json:"oldest,omitzero"`
	Rules      []limitRule `json:"rules,omitempty"`
}

// limitRule is what a limit counts together.
type limitRule struct {
	Rule   string    `json:"rule"`
	Slots  int64     `json:"slots"`
	Jobs   []string  `json:"jobs"` // that have them, by jid, the first 100
	Held   int64     `json:"held"`
	Oldest time.Time `json:"oldest,omitzero"`

	Failures int64     `json:"failures,omitempty"` // in a row, of one with a breaker
	Rests    time.Time `json:"rests_until,omitzero"`
}

func (l *limit) title() string {
	if l.Queue != "" {
		return l.Name + " (queue " + l.Queue + ")"
	}
	return l.Name
}

func limitOf(l *inspect.Limit) limit {
	row := limit{Name: l.Name, Queue: l.Queue, Allows: l.Allows.String(), SetBy: "configuration", Slots: l.Taken(), Held: l.Held(), Oldest: l.Oldest()}
	switch {
	case l.Pinned:
		row.SetBy, row.Configured = "hand", l.Configured.String()
	case !l.Allows.Defined():
		row.SetBy = "nobody"
	}
	return row
}

func limitShowCommand(files cli.Files) *cobra.Command {
	return spec{
		use: "show NAME|NAME:KEY", short: "Show one limit, or what it counts for a key", args: cli.Args(1, 1), names: limitNames,
		long: "Show shows one limit, and for each key that has slots or holds jobs the jobs that have the slots, the first 100, and how many are held.",
		run: func(ctx context.Context, s *cli.Session, args []string) error {
			all, err := limitsNamed(ctx, s, args[0])
			if err != nil {
				return err
			}
			for _, l := range all {
				row := limitOf(l)
				for _, r := range l.Rules {
					one := limitRule{Rule: s.Mask.Rule(r.Name, r.Key), Slots: r.Taken, Jobs: []string{}, Held: r.Held, Oldest: r.Oldest, Failures: r.Failures, Rests: r.Rests}
					for _, slot := range r.Slots {
						one.Jobs = append(one.Jobs, slot.JID)
					}
					row.Rules = append(row.Rules, one)
				}
				if s.JSON {
					err = errors.Join(err, s.PrintJSON(row))
					continue
				}
				for _, r := range row.Rules {
					if !r.Rests.IsZero() {
						defer s.Note("the breaker of %s is open: it rests until %s", shorten(r.Rule), words.At(r.Rests))
					}
				}
				by := "set by " + row.SetBy
				if row.Configured != "" {
					by += "; the configuration says " + row.Configured
				}
				_, _ = fmt.Fprintf(s.Out, "%s\n", cli.Line(fmt.Sprintf("%s: %s (%s), %s taken, %s held", row.title(), row.Allows, by, words.Plural(row.Slots, "slot"), words.Plural(row.Held, "job"))))
				err = errors.Join(err, cli.Rows(s, "RULE SLOTS HELD OLDEST JOBS", "no slot is taken, and no job is held", row.Rules, func(r limitRule) []string {
					return []string{shorten(r.Rule), number(r.Slots), number(r.Held), words.Since(r.Oldest), shorten(strings.Join(r.Jobs, " "))}
				}))
			}
			return err
		},
	}.command(files)
}

// limitsNamed are the limits of that name, with the rule of the key if there is one in the name.
func limitsNamed(ctx context.Context, s *cli.Session, name string) ([]*inspect.Limit, error) {
	all, _, err := s.Inspector.Limit(ctx, name)
	for at := len(name); errors.Is(err, inspect.ErrNotFound); {
		if at = strings.LastIndexByte(name[:at], ':'); at < 1 {
			return nil, cli.Exitf(cli.NotFound, "no limit is named %q; troupe limits shows all", name)
		}
		all, err = s.Inspector.LimitRule(ctx, rules.RuleName(name[:at])+name[at:])
	}
	return all, err
}

// ruleText is NAME:KEY for people whose masker m is.
func ruleText(m *mask.Masker, id string) string {
	name, key, _ := strings.Cut(id, ":")
	return m.Rule(rules.NameOfRule(name), key)
}

// limitChange are the flags of what changes limits.
type limitChange struct {
	reason string
	yes    bool
}

func (c *limitChange) add(f *pflag.FlagSet) {
	f.StringVar(&c.reason, "reason", "", "why, for the audit")
	_ = cobra.MarkFlagRequired(f, "reason")
	f.BoolVar(&c.yes, "yes", false, "do not ask")
}

func limitSetCommand(files cli.Files) *cobra.Command {
	var c limitChange
	return spec{
		use: "set NAME N|N/TIME [burst N]", short: "Set by hand what a limit allows", args: cli.Args(2, 4), names: limitNames, change: "setting a limit",
		long: `Set sets by hand what a limit allows, for all processes and at once: so many jobs at once, or so many in a time, of which burst may start together
after a pause. 0 lets nobody in. It stays when processes start again, until limits reset. The reason is kept in the audit.
On a terminal it asks, or wants --yes.`,
		example: "  troupe limits set payments-api 10/1m burst 3 --reason 'they are slow today'\n  troupe limits set reports 0 --reason 'the warehouse moves'",
		flags:   c.add,
		run: func(ctx context.Context, s *cli.Session, args []string) error {
			to, err := inspect.ParseAllowance(strings.Join(args[1:], " "))
			if err != nil {
				return &cli.ExitError{Code: cli.Fault, Err: err}
			}
			s.About([]string{"limits", args[0], "set"})
			if err := s.Confirm(ctx, cli.Ask{Yes: c.yes, N: 1, Always: true}, "have the limit %s allow %s", args[0], to); err != nil {
				return err
			}
			err = noLimit(s.Inspector.SetLimit(ctx, args[0], to), args[0])
			return said(s, err, map[string]any{"limit": args[0], "allows": to.String()}, "the limit %s allows %s", args[0], to)
		},
	}.command(files)
}

func limitResetCommand(files cli.Files) *cobra.Command {
	var c limitChange
	return spec{
		use: "reset NAME", short: "Have a limit allow what the configuration says", args: cli.Args(1, 1), names: limitNames, change: "resetting a limit",
		long: `Reset ends what limits set has set. A limit that no configuration has is gone then, and lets nobody in. The reason is
kept in the audit. On a terminal it asks, or wants --yes.`,
		flags: c.add,
		run: func(ctx context.Context, s *cli.Session, args []string) error {
			s.About([]string{"limits", args[0], "reset"})
			if err := s.Confirm(ctx, cli.Ask{Yes: c.yes, N: 1, Always: true}, "reset the limit %s", args[0]); err != nil {
				return err
			}
			if err := noLimit(s.Inspector.ResetLimit(ctx, args[0]), args[0]); err != nil {
				return err
			}
			allows := inspect.Allowance{}.String()
			if all, _, err := s.Inspector.Limit(ctx, args[0]); err == nil {
				allows = all[0].Allows.String()
			}
			return said(s, nil, map[string]any{"limit": args[0], "allows": allows}, "the limit %s allows %s", args[0], allows)
		},
	}.command(files)
}

func noLimit(err error, name string) error {
	if errors.Is(err, inspect.ErrNotFound) {
		return cli.Exitf(cli.NotFound, "no limit is named %q; troupe limits shows all", name)
	}
	return err
}

func limitReleaseCommand(files cli.Files) *cobra.Command {
	var c limitChange
	most := 0
	return spec{
		use: "release NAME|NAME:KEY", short: "Let held jobs in for which there is no room", args: cli.Args(1, 1), names: limitNames, change: "releasing held jobs",
		long: `Release lets jobs in that a limit holds, though it has no room: the oldest of each key first. The limit is exceeded by as many. Those of a paused queue
go back to it. The reason is kept in the audit. On a terminal it asks, or wants --yes.`,
		example: "  troupe limits release reports --limit 10 --reason 'they must be done by noon'",
		flags: func(f *pflag.FlagSet) {
			f.Var(cli.Number(&most, 0, 0), "limit", "at most so many; 0 is all")
			c.add(f)
		},
		run: func(ctx context.Context, s *cli.Session, args []string) error {
			all, err := limitsNamed(ctx, s, args[0])
			if err != nil {
				return err
			}
			held := int64(0)
			for _, l := range all {
				held += l.Held()
			}
			if held == 0 {
				return cli.Exitf(cli.NotFound, "the limit %s holds no job", args[0])
			}
			if most > 0 {
				held = min(held, int64(most))
			}
			shown := args[0]
			if key, ok := strings.CutPrefix(shown, all[0].Name+":"); ok { // others read the audit
				shown = mask.New(mask.Mask, nil, nil).Rule(all[0].Name, key)
			}
			s.About([]string{"limits", shown, "release"})
			if err := s.Confirm(ctx, cli.Ask{Yes: c.yes, N: held, Always: true}, "let %s in that the limit %s holds", words.Plural(held, "job"), shown); err != nil {
				return err
			}
			done := 0
			for _, l := range all {
				for _, r := range l.Rules {
					var n int
					if err == nil && int64(done) < held {
						n, err = r.Release(ctx, int(min(held-int64(done), r.Held)))
					}
					done += n
				}
			}
			return said(s, err, map[string]any{"limit": args[0], "released": done}, "let %s in", words.Plural(done, "job"))
		},
	}.command(files)
}

// limitNames complete an argument.
func limitNames(ctx context.Context, s *cli.Session) (names []string, err error) {
	all, _, err := s.Inspector.Limits(ctx)
	for _, l := range all {
		names = append(names, l.Name)
	}
	return slices.Compact(names), err
}
