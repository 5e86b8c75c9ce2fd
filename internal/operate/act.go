package operate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/cli"
	"github.com/troupehq/troupe/internal/jobfilter"
)

// action is something that can be done to the entries of a set.
type action struct {
	name, short, past string
	timed             bool // it takes --at
	act               func(ctx context.Context, e *inspect.SortedEntry, at time.Time) (inspect.Outcome, error)
}

func actions() []action {
	return []action{
		{"retry", "Put jobs into their queues now", "retried", false, func(ctx context.Context, e *inspect.SortedEntry, _ time.Time) (inspect.Outcome, error) {
			if e.Set.Name == "schedule" {
				return e.AddToQueue(ctx)
			}
			return e.Retry(ctx)
		}},
		{"kill", "Move jobs to the dead set", "killed", false, func(ctx context.Context, e *inspect.SortedEntry, _ time.Time) (inspect.Outcome, error) {
			return e.Kill(ctx)
		}},
		{"delete", "Delete jobs for good", "deleted", false, func(ctx context.Context, e *inspect.SortedEntry, _ time.Time) (inspect.Outcome, error) {
			return e.Delete(ctx)
		}},
		{"reschedule", "Give jobs another time", "rescheduled", true, func(ctx context.Context, e *inspect.SortedEntry, at time.Time) (inspect.Outcome, error) {
			return e.Reschedule(ctx, at)
		}},
	}
}

// bulk is one call of an action.
type bulk struct {
	action
	s           *cli.Session
	set         *inspect.JobSet
	jids        map[string]bool // nil: by the filter
	filter      *jobfilter.Filter
	at          time.Time
	rate        int
	dryRun, yes bool
	counts      counts
	total       int64
}

// counts is what an action did.
type counts struct {
	Done    int    `json:"done"`
	Gone    int    `json:"gone"`    // taken by somebody else before
	Stopped int    `json:"stopped"` // by client middleware on the way to the queue
	Left    int    `json:"left"`    // still there
	Fault   string `json:"fault,omitempty"`
}

func (a action) command() *cobra.Command {
	var flags cli.Flags
	var filter filterFlags
	b := bulk{action: a}
	var all bool
	var when string
	cmd := &cobra.Command{
		Use:   a.name + " SET (JID... | FILTER | --all)",
		Short: a.short,
		Long: a.short + `: those that are named, those that a filter chooses, or all of SET (retry, scheduled or dead). It looks
first how many there are; above 100 it wants the number typed, or --yes. Ctrl-C ends it between two
jobs. At the end it tells how many were done, gone (taken by somebody else), stopped (by client
middleware) and left.`,
		Example:   fmt.Sprintf("  troupe jobs %s dead --error 502 --since 1h --dry-run", a.name),
		Args:      cobra.MinimumNArgs(1),
		ValidArgs: sets,
		RunE: func(cmd *cobra.Command, args []string) error {
			now := time.Now()
			if err := filter.read(now); err != nil {
				return err
			}
			b.filter = &filter.filter
			chosen := filter.filter.String() != ""
			if n := len(args) - 1; n > 0 && (all || chosen) || n == 0 && all == chosen {
				return cli.Exitf(cli.Fault, "%d jobs are named, a filter is given: %v, --all is %v, expected one of the three", n, chosen, all)
			}
			if len(args) > 1 {
				b.jids = map[string]bool{}
				for _, jid := range args[1:] {
					b.jids[jid] = true
				}
			}
			if b.rate < 0 {
				return cli.Exitf(cli.Fault, "--rate is %d, expected 0 or more", b.rate)
			}
			if a.timed {
				var err error
				if b.at, err = parseFuture(when, now); err != nil {
					return err
				}
			}
			return flags.Run(cmd, func(ctx context.Context, s *cli.Session) (err error) {
				b.s = s
				if b.set, err = setOf(s.Inspector, args[0]); err != nil {
					return err
				}
				return b.run(ctx)
			})
		},
	}
	f := cmd.Flags()
	filter.add(cmd)
	f.BoolVar(&all, "all", false, "all of the set")
	f.BoolVar(&b.dryRun, "dry-run", false, "tell how many there are, and show some, and do nothing")
	f.BoolVar(&b.yes, "yes", false, "do not ask")
	f.IntVar(&b.rate, "rate", 1000, "at most so many a second; 0 is as fast as it goes")
	if a.timed {
		f.StringVar(&when, "at", "", "the new time: RFC 3339, seconds since the epoch, or a span from now like 2h")
		_ = cmd.MarkFlagRequired("at")
	}
	flags.Add(cmd)
	return cmd
}

// parseFuture reads a time, or a span from now.
func parseFuture(text string, now time.Time) (time.Time, error) {
	at, err := jobfilter.ParseTime(text, now)
	if err != nil {
		return at, errors.New("--at: " + strings.Replace(err.Error(), "back from now", "from now", 1))
	}
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(d), nil
	}
	return at, nil
}

// each walks through the entries that are chosen.
func (b *bulk) each(ctx context.Context, do func(e *inspect.SortedEntry) (more bool, err error)) error {
	if b.jids != nil {
		for jid := range b.jids {
			e, err := b.set.FindJob(ctx, jid)
			if errors.Is(err, inspect.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			if more, err := do(e); err != nil || !more {
				return err
			}
		}
		return nil
	}
	for e, err := range b.set.Each(ctx) {
		if err != nil {
			return err
		}
		if !b.filter.Match(&e.JobRecord, e.At) || b.timed && e.At.Equal(b.at) { // met again, or as it is to be
			continue
		}
		if more, err := do(e); err != nil || !more {
			return err
		}
	}
	return nil
}

// shown is how many entries a dry run shows.
const shown = 10

func (b *bulk) run(ctx context.Context) error {
	var some []*inspect.SortedEntry
	if err := b.each(ctx, func(e *inspect.SortedEntry) (bool, error) {
		if b.total++; len(some) < shown {
			some = append(some, e)
		}
		return true, nil
	}); err != nil {
		return err
	}
	if b.total == 0 {
		return cli.Exitf(cli.NotFound, "no such jobs in %s", b.set.Name)
	}
	if b.dryRun {
		if b.s.JSON {
			return b.s.PrintJSON(map[string]int64{"matches": b.total})
		}
		_, _ = fmt.Fprintf(b.s.Out, "%d jobs would be %s, among them\n", b.total, b.past)
		t := newJobTable(b.s)
		for _, e := range some {
			t.row(e.At, &e.JobRecord)
		}
		return t.Flush()
	}
	if err := b.s.Change(b.name + " of jobs"); err != nil {
		return err
	}
	if err := b.s.Confirm(b.yes, b.total, "%s %d jobs of the set %s", b.name, b.total, b.set.Name); err != nil {
		return err
	}
	began, last := time.Now(), time.Time{}
	err := b.each(ctx, func(e *inspect.SortedEntry) (bool, error) {
		if err := b.one(ctx, e); err != nil {
			return false, err
		}
		n := b.counts.Done + b.counts.Gone + b.counts.Stopped + b.counts.Left
		if b.s.Terminal && !b.s.JSON && time.Since(last) > 200*time.Millisecond {
			last = time.Now()
			_, _ = fmt.Fprintf(b.s.Err, "\r%d of %d (%d%%)", n, b.total, min(100, int64(n)*100/b.total))
		}
		if b.rate > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(time.Until(began.Add(time.Duration(n) * time.Second / time.Duration(b.rate)))):
			}
		}
		return ctx.Err() == nil, nil
	})
	if !last.IsZero() {
		_, _ = fmt.Fprintln(b.s.Err)
	}
	if err == nil {
		err = ctx.Err()
	}
	return b.end(err)
}

// one acts on one entry. What is wrong with the entry leaves it; other errors end the call.
func (b *bulk) one(ctx context.Context, e *inspect.SortedEntry) error {
	outcome, err := b.act(context.WithoutCancel(ctx), e, b.at)
	switch {
	case err != nil && (e.Err != nil || inspect.IsFault(err)):
		b.counts.Left++
		if b.counts.Fault == "" {
			b.counts.Fault = err.Error()
		}
		return nil
	case err != nil:
		return err
	case outcome == inspect.Done:
		b.counts.Done++
	case outcome == inspect.Stopped:
		b.counts.Stopped++
	default:
		b.counts.Gone++
	}
	return nil
}

// end tells what was done, also after an error.
func (b *bulk) end(err error) error {
	c := b.counts
	if b.s.JSON {
		_ = b.s.PrintJSON(c)
	} else {
		_, _ = fmt.Fprintf(b.s.Out, "%s: %d done, %d gone, %d stopped, %d left\n", b.past, c.Done, c.Gone, c.Stopped, c.Left)
		if c.Fault != "" {
			_, _ = fmt.Fprintf(b.s.Err, "troupe: the first that was left: %s\n", cli.Line(c.Fault))
		}
	}
	if err == nil && c.Left > 0 {
		return &cli.ExitError{Code: cli.Partly}
	}
	return err
}
