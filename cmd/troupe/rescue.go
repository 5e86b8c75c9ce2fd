package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/rescue"
	"github.com/troupehq/troupe/internal/words"
)

// rescueCall is one call of the command.
type rescueCall struct {
	*cli.Session
	namespace    string
	dryRun, wait bool

	rescuer *rescue.Rescuer
	search  rescue.Search
	looked  bool     // for lists that no index names
	queues  []string // of all fetchers that were seen
	unknown bool     // there are some of another version: they may live
}

func rescueCommand() *cobra.Command {
	var c rescueCall
	flags := cli.Flags{Files: files{}}
	cmd := &cobra.Command{
		Use:   "rescue",
		Short: "Put back what dead processes had in progress",
		Long: `Rescue puts the jobs that dead processes had in progress back into their queues, to the
end that is popped next. Live processes of troupe do that by themselves, with the recovery
policy and the count of poison pills, which this command does not have. It is for when
none is left and Ruby goes on alone.

It touches only processes whose lease is over, and lists the others with the time that
is left; with --wait it waits for those, too. A lease that is renewed belongs to a
process that lives: stop it. When no process lives any more the suspects (jobs that may
have killed their process, in queue:NAME.suspects) go back into the plain queues as well:
Ruby does not read them, and so do the jobs that limits hold. Jobs in progress that no index names any more, since somebody has
deleted it say, are looked for among all keys.

It may be repeated, and broken off, at any time.`,
		Example: "  troupe rescue --dry-run\n  troupe rescue --wait",
		Args:    cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.Run(cmd, func(ctx context.Context, s *cli.Session) (err error) {
				if !c.dryRun {
					if err := s.Change("rescuing"); err != nil {
						return err
					}
				}
				inNamespace(s.Redis, c.namespace)
				c.Session = s
				if c.rescuer, err = rescue.New(rescue.Config{Redis: s.Redis, Logger: zerolog.Nop(), QueueOf: rescue.QueueOf}); err != nil {
					return err
				}
				return c.run(ctx)
			})
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&c.dryRun, "dry-run", false, "tell what would be done, and do nothing")
	f.BoolVar(&c.wait, "wait", false, "wait until the leases of the others are over")
	namespaceFlag(cmd, &c.namespace)
	flags.Add(cmd)
	cmd.MarkFlagsMutuallyExclusive("dry-run", "wait")
	return cmd
}

const (
	busyTries = 60                     // the lock of a rescuer that has died lasts 10 s
	busyPause = 250 * time.Millisecond // between two tries

	searchTime = time.Minute // for lists that no index names
)

func (c *rescueCall) run(ctx context.Context) error {
	if err := leftAlone(ctx, c.Session); err != nil {
		return err
	}
	seen := make(map[string]bool) // that they live
	for tries := 0; ; {
		dead, live, err := c.look(ctx)
		if err != nil {
			return err
		}
		if c.dryRun {
			return c.tell(ctx, dead, live)
		}
		if len(dead) > 0 {
			again, err := c.putBack(ctx, dead)
			if tries++; err == nil && again && tries > busyTries {
				err = fmt.Errorf("%d processes are not rescued: %w", len(dead), rescue.ErrBusy)
			}
			if err != nil {
				return err
			}
			if again {
				if err := pause(ctx, busyPause); err != nil {
					return err
				}
			}
			continue
		}
		tries = 0
		if !c.looked {
			c.looked = true
			if named, err := c.name(ctx); err != nil {
				return err
			} else if named {
				continue
			}
		}
		for _, f := range live {
			if !seen[f.ID] {
				seen[f.ID] = true
				c.lives(f)
			}
		}
		switch {
		case len(live) == 0 && !c.unknown:
			return errors.Join(c.suspects(ctx), c.held(ctx))
		case len(live) == 0 || !c.wait:
			return nil
		}
		if err := pause(ctx, min(time.Second, live[0].Lease+time.Millisecond)); err != nil {
			return err
		}
	}
}

// look tells who is dead, and who lives, the one whose lease ends next first.
func (c *rescueCall) look(ctx context.Context) (dead, live []*inspect.Fetcher, err error) {
	fetchers, err := c.Inspector.Fetchers(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range fetchers {
		c.queues = append(c.queues, f.Queues...)
		switch {
		case f.Unknown != "":
			c.unknown = true
		case f.Alive:
			live = append(live, f)
		default:
			dead = append(dead, f)
		}
	}
	slices.Sort(c.queues)
	c.queues = slices.Compact(c.queues)
	slices.SortStableFunc(live, func(a, b *inspect.Fetcher) int { return int(a.Lease/time.Millisecond - b.Lease/time.Millisecond) })
	return dead, live, nil
}

func (c *rescueCall) lives(f *inspect.Fetcher) {
	c.say(told{From: f.ID, State: "lives", Jobs: int(f.Size), Lease: f.Lease.Seconds()},
		"%s in progress, its lease runs for another %s", words.Plural(f.Size, "job"), words.Few(f.Lease))
}

// putBack makes a round; again if somebody else was at work.
func (c *rescueCall) putBack(ctx context.Context, dead []*inspect.Fetcher) (again bool, err error) {
	ids := make([]string, len(dead))
	for i, f := range dead {
		ids[i] = f.ID
	}
	done, err := c.rescuer.RescueOnly(ctx, ids...)
	for _, from := range done.Details {
		if total := sum(from.Queues); total > 0 || from.Done {
			c.say(told{From: from.ID, State: "put back", Jobs: total, Queues: from.Queues}, "put back %s", counts(total, from.Queues))
		}
	}
	if errors.Is(err, rescue.ErrBusy) {
		return true, nil
	}
	return done.Fetchers < len(dead), err
}

// unnamed looks for lists that no index names. Who may not look through all keys has a line about it.
func (c *rescueCall) unnamed(ctx context.Context) (lists []rescue.Unnamed, err error) {
	lists, done, err := c.search.Next(ctx, c.Redis, searchTime)
	switch refusal, refused := redisconn.Refused(err); {
	case refused:
		_, _ = fmt.Fprintln(c.Err, cli.Line("jobs in progress that no index names were not looked for: "+refusal.Text))
	case err != nil:
		return nil, err
	case !done:
		_, _ = fmt.Fprintln(c.Err, cli.Line("jobs in progress that no index names were not looked for in all keys: there are too many. A process of troupe does it little by little."))
	}
	return lists, nil
}

// name has lists that no index names rescued with their owners.
func (c *rescueCall) name(ctx context.Context) (named bool, err error) {
	lists, err := c.unnamed(ctx)
	if err != nil || len(lists) == 0 {
		return false, err
	}
	for tries := 0; ; tries++ {
		n, err := c.rescuer.Name(ctx, lists)
		if !errors.Is(err, rescue.ErrBusy) || tries > busyTries {
			return n > 0, err
		}
		if err := pause(ctx, busyPause); err != nil {
			return false, err
		}
	}
}

// suspects puts them into the plain queues.
func (c *rescueCall) suspects(ctx context.Context) error {
	returned, err := c.rescuer.ReturnSuspects(ctx, c.queues...)
	if total := sum(returned); total > 0 {
		c.say(told{From: "suspects", State: "put back", Jobs: total, Queues: returned}, "put back %s", counts(total, returned))
	}
	return err
}

// held sends the jobs that limits hold back to their queues: nobody else lets them in.
func (c *rescueCall) held(ctx context.Context) error {
	total := 0
	for r, err := range c.Inspector.HeldRules(ctx) {
		n := 0
		if err == nil {
			n, err = r.SendBack(ctx)
		}
		if total += n; err != nil {
			return err
		}
	}
	if total > 0 {
		c.say(told{From: "limits", State: "put back", Jobs: total}, "put back %s that they held", words.Plural(total, "job"))
	}
	return nil
}

// tell prints what a rescue would do, for --dry-run.
func (c *rescueCall) tell(ctx context.Context, dead, live []*inspect.Fetcher) error {
	for _, f := range dead {
		c.say(told{From: f.ID, State: "would put back", Jobs: int(f.Size)}, "would put back %s", words.Plural(f.Size, "job"))
	}
	lists, err := c.unnamed(ctx)
	if err != nil {
		return err
	}
	for i := range lists {
		l := &lists[i]
		c.say(told{From: l.ID, State: "would put back", Jobs: int(l.Jobs)}, "would put back %s that no index names, if they tell their queue", words.Plural(l.Jobs, "job"))
	}
	for _, f := range live {
		c.lives(f)
	}
	if len(live) > 0 || c.unknown {
		return nil
	}
	held, err := c.Inspector.HeldSize(ctx)
	if err != nil {
		return err
	}
	if held > 0 {
		c.say(told{From: "limits", State: "would put back", Jobs: int(held)}, "would put back %s that they hold", words.Plural(held, "job"))
	}
	known, err := c.Inspector.Queues(ctx)
	if err != nil {
		return err
	}
	names := c.queues
	for _, q := range known {
		names = append(names, strings.TrimSuffix(q.Name, keys.SuspectsSuffix))
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		suspects, err := c.Inspector.Queue(keys.Suspects(name)).Summary(ctx)
		if err != nil {
			return err
		}
		if n := suspects.Size; n > 0 {
			c.say(told{From: "suspects", State: "would put back", Jobs: int(n), Queues: map[string]int{name: int(n)}}, "would put back %s: %s %d", words.Plural(n, "job"), name, n)
		}
	}
	return nil
}

// told is what is said of one process, as JSON.
type told struct {
	From   string         `json:"from"`  // its fetcher, suspects or limits
	State  string         `json:"state"` // put back, would put back or lives
	Jobs   int            `json:"jobs"`
	Queues map[string]int `json:"queues,omitempty"`
	Lease  float64        `json:"lease_s,omitempty"` // what is left of it
}

func (c *rescueCall) say(t told, format string, args ...any) {
	text := t.From + ": " + fmt.Sprintf(format, args...)
	c.Told(text, nil)
	if c.JSON {
		_ = c.PrintJSON(t)
		return
	}
	_, _ = fmt.Fprintln(c.Out, cli.Line(text))
}

func sum(queues map[string]int) (n int) {
	for _, k := range queues {
		n += k
	}
	return n
}

// counts is like "3 jobs: a 2, b 1".
func counts(total int, queues map[string]int) string {
	var parts []string
	for _, q := range slices.Sorted(maps.Keys(queues)) {
		parts = append(parts, fmt.Sprintf("%s %d", q, queues[q]))
	}
	text := words.Plural(total, "job")
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	return text
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
