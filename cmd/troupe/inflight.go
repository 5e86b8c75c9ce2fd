package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/config"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/cut"
	"github.com/troupehq/troupe/internal/redisconn"
)

// inflight is one call of the command.
type inflight struct {
	redis, queue, process string
	namespace             string
	older                 time.Duration
	jobs, json            bool
	out, errOut           io.Writer
}

func inflightCommand() *cobra.Command {
	var c inflight
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
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.out, c.errOut = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return withRedis(c.redis, func(rdb redis.UniversalClient) error {
				inNamespace(rdb, c.namespace)
				return c.run(cmd.Context(), inspect.New(rdb))
			})
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Var(wordFlag{&c.queue, "NAME"}, "queue", "only jobs of this queue")
	f.Var(wordFlag{&c.process, "IDENTITY"}, "process", "only jobs of this process")
	f.Var(durationFlag{&c.older}, "older", "only what was taken so long ago, like 90 or 2h")
	f.BoolVar(&c.jobs, "jobs", false, "show each job")
	f.BoolVar(&c.json, "json", false, "print a JSON object a line")
	namespaceFlag(cmd, &c.namespace)
	redisFlag(cmd, &c.redis)
	return cmd
}

func redisFlag(cmd *cobra.Command, url *string) {
	cmd.Flags().Var(wordFlag{url, "URL"}, "redis", "Redis to use (REDIS_PROVIDER, REDIS_URL, redis://localhost:6379/0)")
}

// withRedis runs fn with a client of the Redis that is meant.
func withRedis(given string, fn func(redis.UniversalClient) error) error {
	url, err := config.RedisURL(given, os.Getenv)
	if err != nil {
		return err
	}
	redis.SetLogger(driverLog{zerolog.Nop()}) // the errors say it all
	rdb, err := redisconn.FromURL(url, redisconn.Need{})
	if err != nil {
		return err
	}
	defer func() { _ = rdb.Close() }()
	if err := fn(rdb); err != nil {
		return fmt.Errorf("%w (redis %s)", err, redisconn.Mask(url))
	}
	return nil
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
	return short(time.Duration(e.Age * float64(time.Second)))
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
	return short(time.Duration(e.Lease*float64(time.Second))) + " left"
}

// short is d without what nobody reads.
func short(d time.Duration) string {
	if d < time.Minute {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func (c *inflight) wants(claim *inspect.Claim, now time.Time) bool {
	return (c.queue == "" || claim.Queue == c.queue) && (c.process == "" || claim.Fetcher.Process == c.process) &&
		(c.older == 0 || !claim.Since.IsZero() && now.Sub(claim.Since) >= c.older)
}

func (c *inflight) run(ctx context.Context, i *inspect.Inspector) error {
	now := time.Now()
	var err error
	if c.jobs {
		err = c.showJobs(ctx, i, now)
	} else {
		err = c.showLists(ctx, i, now)
	}
	if err != nil {
		return err
	}
	return leftAlone(ctx, i, c.errOut)
}

// showLists prints a line for each list.
func (c *inflight) showLists(ctx context.Context, i *inspect.Inspector, now time.Time) error {
	var entries []entry
	for claim, err := range i.Claims(ctx) {
		if err != nil {
			return err
		}
		if c.wants(claim, now) {
			e := newEntry(claim, now)
			e.Jobs = claim.Size
			entries = append(entries, e)
		}
	}
	slices.SortStableFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(b.Age, a.Age), cmp.Compare(a.Fetcher, b.Fetcher))
	})
	if c.json {
		return c.printJSON(entries...)
	}
	if len(entries) == 0 {
		_, err := fmt.Fprintln(c.out, "nothing is in progress")
		return err
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "QUEUE\tJOBS\tAGE\tLEASE\tPROCESS\tCAPSULE\tLIST") // Flush tells
	var total, orphans int64
	for _, e := range entries {
		_, _ = fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\n", e.queue(), e.Jobs, e.age(), e.lease(), e.Process, e.Capsule, e.List)
		if total += e.Jobs; e.Orphan {
			orphans += e.Jobs
		}
	}
	_, _ = fmt.Fprintf(w, "%d in progress, %d of a process that is dead\n", total, orphans)
	return w.Flush()
}

// showJobs prints a line for each job, as they are read.
func (c *inflight) showJobs(ctx context.Context, i *inspect.Inspector, now time.Time) error {
	for claim, err := range i.Claims(ctx) {
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
			if c.json {
				err = c.printJSON(e)
			} else {
				_, err = fmt.Fprintf(c.out, "%s %s queue %s, %s, %s, lease %s\n", cut.Text(e.JID), cut.Text(e.Class), e.queue(), e.age(), e.Fetcher, e.lease())
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *inflight) printJSON(entries ...entry) error {
	enc := json.NewEncoder(c.out)
	for i := range entries {
		if err := enc.Encode(&entries[i]); err != nil {
			return err
		}
	}
	return nil
}

// leftAlone tells what this version does not read.
func leftAlone(ctx context.Context, i *inspect.Inspector, out io.Writer) error {
	fetchers, err := i.Fetchers(ctx)
	if err != nil {
		return err
	}
	for _, f := range fetchers {
		if f.Unknown != "" {
			_, _ = fmt.Fprintf(out, "troupe: warning: another version of troupe has written %s of %s; its jobs are not shown and are left alone, only that version puts them back\n",
				cut.Text(f.Unknown), f.ID)
		}
	}
	return nil
}
