package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

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
				return []string{shorten(l.title()), l.allows(), l.SetBy, number(l.Slots), number(l.Held), words.Since(l.Oldest)}
			})
		},
	}
	all := list
	all.use, all.short = "limits", "Show and set limits, have them rest, and release the jobs that they hold"
	cmd := all.command(files)
	cmd.AddCommand(list.command(files), limitShowCommand(files), limitSetCommand(files), limitResetCommand(files), limitReleaseCommand(files), limitRestCommand(files))
	return cmd
}

// limit is a limit in JSON.
type limit struct {
	Name       string      `json:"limit"`
	Queue      string      `json:"queue,omitempty"` // whose it is on a Redis Cluster
	Allows     string      `json:"allows"`
	Resting    int         `json:"resting,omitempty"`    // how many rules rest
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

// allows tells of rests, too.
func (l *limit) allows() string {
	if l.Resting == 0 {
		return l.Allows
	}
	return fmt.Sprintf("%s (%d rest now)", l.Allows, l.Resting)
}

func limitOf(l *inspect.Limit) limit {
	row := limit{Name: l.Name, Queue: l.Queue, Allows: l.Allows.String(), Resting: l.Resting(), SetBy: "configuration", Slots: l.Taken(), Held: l.Held(), Oldest: l.Oldest()}
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
		long: "Show shows one limit, and for each key that has slots, holds jobs or rests the jobs that have the slots, the first 100, how many are held, and until when it rests.",
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
						defer s.Note("the breaker of %s is open: it %s", shorten(r.Rule), words.Rests(r.Rests))
					}
				}
				by := "set by " + row.SetBy
				if row.Configured != "" {
					by += "; the configuration says " + row.Configured
				}
				_, _ = fmt.Fprintf(s.Out, "%s\n", cli.Line(fmt.Sprintf("%s: %s (%s), %s taken, %s held", row.title(), row.Allows, by, words.Plural(row.Slots, "slot"), words.Plural(row.Held, "job"))))
				err = errors.Join(err, cli.Rows(s, "RULE SLOTS HELD OLDEST JOBS", "no slot is taken, no job is held, and nothing rests", row.Rules, func(r limitRule) []string {
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
			return nil, noLimit(name)
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

// limitNames complete an argument.
func limitNames(ctx context.Context, s *cli.Session) (names []string, err error) {
	all, _, err := s.Inspector.Limits(ctx)
	for _, l := range all {
		names = append(names, l.Name)
	}
	return slices.Compact(names), err
}
