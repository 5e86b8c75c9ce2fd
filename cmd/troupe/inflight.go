package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/words"
)

// inflight is one call of the command.
type inflight struct {
	*cli.Session
	queue, process, namespace string
	older                     time.Duration
	jobs                      bool
}

func inflightCommand() *cobra.Command {
	var c inflight
	flags := cli.Flags{Files: files{}}
	cmd := &cobra.Command{
		Use:   "inflight",
		Short: "Show what is in progress",
		Long: `Inflight shows the jobs that processes of troupe have taken and not settled, which are
in no queue: by queue, the oldest first, with the process that has them and how long
its lease still runs. A lease that is over belongs to a process that has died: any live
one puts its jobs back, or "troupe rescue" does. It changes nothing.

A list is what one fetch took from one queue, or the waiting list of a queue (w:NAME),
to which a push brings jobs while the process is idle. The age of a claim is the time
since the fetch, of a waiting list the time since the push of its oldest job.`,
		Example: `  troupe inflight --queue critical --older 10m
  troupe inflight --json | jq 'select(.orphan)'`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.Run(cmd, func(ctx context.Context, s *cli.Session) error {
				inNamespace(s.Redis, c.namespace)
				c.Session = s
				return c.run(ctx)
			})
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Var(wordFlag{&c.queue, "NAME"}, "queue", "only jobs of this queue")
	f.Var(wordFlag{&c.process, "IDENTITY"}, "process", "only jobs of this process")
	f.Var(cli.Span(&c.older), "older", "only what was taken so long ago, like 90 or 2h")
	f.BoolVar(&c.jobs, "jobs", false, "show each job")
	namespaceFlag(cmd, &c.namespace)
	flags.Add(cmd)
	return cmd
}

// entry is a list, or with --jobs a job, as it is printed.
type entry struct {
	Queue   string     `json:"queue"`
	Jobs    int64      `json:"jobs,omitempty"`
	JID     string     `json:"jid,omitempty"`
	Class   string     `json:"class,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
	Age     float64    `json:"age_s,omitempty"`
	Process string     `json:"process"`
	Capsule string     `json:"capsule"`
	Fetcher string     `json:"fetcher"`
	List    string     `json:"list"`
	Key     string     `json:"key"`
	Suspect bool       `json:"suspect,omitempty"`
	Lease   float64    `json:"lease_s"` // what is left of it
	Orphan  bool       `json:"orphan"`  // it is over
	Fenced  bool       `json:"fenced,omitempty"`
}

func newEntry(c *inspect.Claim, now time.Time) entry {
	e := entry{
		Queue: c.Queue, Process: c.Fetcher.Process, Capsule: c.Fetcher.Capsule, Fetcher: c.Fetcher.ID, List: c.Field, Key: c.Key,
		Suspect: c.Suspect, Lease: c.Fetcher.Lease.Seconds(), Orphan: !c.Fetcher.Alive, Fenced: c.Fetcher.Fenced,
	}
	if !c.Since.IsZero() {
		e.Since, e.Age = &c.Since, max(0, now.Sub(c.Since).Seconds())
	}
	return e
}

func (e *entry) age() string {
	if e.Since == nil {
		return "?"
	}
	return words.Few(time.Duration(e.Age * float64(time.Second)))
}

func (e *entry) queue() string {
	if e.Suspect {
		return e.Queue + " (suspect)"
	}
	return e.Queue
}

func (e *entry) lease() string {
	switch {
	case e.Fenced:
		return "over, being rescued"
	case e.Orphan:
		return "over"
	}
	return words.Few(time.Duration(e.Lease*float64(time.Second))) + " left"
}

func (c *inflight) wants(claim *inspect.Claim, now time.Time) bool {
	return (c.queue == "" || claim.Queue == c.queue) && (c.process == "" || claim.Fetcher.Process == c.process) &&
		(c.older == 0 || !claim.Since.IsZero() && now.Sub(claim.Since) >= c.older)
}

func (c *inflight) run(ctx context.Context) error {
	show := c.showLists
	if c.jobs {
		show = c.showJobs
	}
	if err := show(ctx, time.Now()); err != nil {
		return err
	}
	return leftAlone(ctx, c.Session)
}

// showLists prints a line for each list.
func (c *inflight) showLists(ctx context.Context, now time.Time) error {
	var entries []entry
	var total, orphans int64
	for claim, err := range c.Inspector.Claims(ctx) {
		if err != nil {
			return err
		}
		if !c.wants(claim, now) {
			continue
		}
		e := newEntry(claim, now)
		e.Jobs = claim.Size
		entries = append(entries, e)
		if total += e.Jobs; e.Orphan {
			orphans += e.Jobs
		}
	}
	slices.SortStableFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(b.Age, a.Age), cmp.Compare(a.Fetcher, b.Fetcher))
	})
	if len(entries) == 0 {
		if c.JSON {
			return nil
		}
		_, err := fmt.Fprintln(c.Out, "nothing is in progress")
		return err
	}
	if err := cli.Rows(c.Session, "QUEUE JOBS AGE LEASE PROCESS CAPSULE LIST", "", entries, func(e entry) []string {
		return []string{e.queue(), strconv.FormatInt(e.Jobs, 10), e.age(), e.lease(), e.Process, e.Capsule, e.List}
	}); err != nil || !c.Terminal || c.JSON {
		return err
	}
	_, err := fmt.Fprintf(c.Out, "%s in progress, %s of a process that is dead\n", words.Count(total), words.Count(orphans))
	return err
}

// showJobs reads the jobs and prints a line for each as soon as it is read.
func (c *inflight) showJobs(ctx context.Context, now time.Time) error {
	t := c.Table("JID", "CLASS", "QUEUE", "AGE", "LEASE", "FETCHER")
	for claim, err := range c.Inspector.Claims(ctx) {
		if err != nil {
			return err
		}
		if !c.wants(claim, now) {
			continue
		}
		e := newEntry(claim, now)
		for job, err := range claim.Each(ctx) {
			if err != nil {
				return err
			}
			e.JID, e.Class = job.JID, job.Payload.Class()
			if !c.JSON {
				t.Row(words.Text(e.JID), words.Text(e.Class), e.queue(), e.age(), e.lease(), e.Fetcher)
			} else if err := c.PrintJSON(&e); err != nil {
				return err
			}
		}
	}
	if c.JSON {
		return nil
	}
	return t.Flush()
}

// leftAlone tells what this version does not read.
func leftAlone(ctx context.Context, s *cli.Session) error {
	fetchers, err := s.Inspector.Fetchers(ctx)
	if err != nil {
		return err
	}
	for _, f := range fetchers {
		if f.Unknown != "" {
			_, _ = fmt.Fprintf(s.Err, "troupe: warning: another version of troupe has written %s of %s; its jobs are not shown and are left alone, only that version puts them back\n",
				cli.Line(words.Text(f.Unknown)), cli.Line(f.ID))
		}
	}
	return nil
}
