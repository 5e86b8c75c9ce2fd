package config

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/sched"

	"github.com/troupehq/troupe/internal/handlerconf"
)

// Summary writes what a daemon of s would run, for people. Nothing in it is a
// credential: of an exec handler there is the program without its arguments, of
// an http handler the URL without user and query, of headers and secrets where
// they come from.
func (s *Settings) Summary(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(t, format+"\n", args...) } // Flush has the error
	if len(s.Trees) == 0 {
		line("redis\t%s", redisconn.Describe(s.RedisURL))
	}
	line("stop timeout\t%s", cmp.Or(s.Timeout, limits.Timeout))
	if s.MaxRetries != 0 {
		line("retries\t%d where a job's retry is true", max(s.MaxRetries, 0))
	}
	line("metrics\t%s", cmp.Or(s.Metrics, "both"))
	if s.Ops != "" {
		line("ops\t%s", s.Ops)
	}
	if len(s.Keys.Keys) > 0 {
		line("encryption\t%s", s.Keys)
	}
	if len(s.Env) > 0 {
		line("env\t%s", strings.Join(names(s.Env), " "))
	}
	if s.Poison != (actors.Poison{}) {
		line("poison pills\t%s", poisonText(s.Poison))
	}
	strategy, err := s.Strategy.build()
	if err != nil {
		return err
	}
	line("launcher\t%s", strategy)
	capsules := func(s *Settings) error {
		for _, k := range s.Capsules {
			strategy, err := k.Strategy.build()
			if err != nil {
				return err
			}
			how := s.fetcher(k) + " fetch"
			if k.Wire == wireGoWorkers {
				how += ", jobs of go-workers"
				if k.Namespace != "" {
					how += " in " + k.Namespace
				}
			}
			if k.Wire == wireLaravel {
				how = "jobs of Laravel"
				if k.Laravel != nil && k.Laravel.Prefix != "" {
					how += " behind " + k.Laravel.Prefix
				}
			}
			how += unknownText(s.unknownOf(k)) + limitsText(k.Limits)
			if k.Rest > 0 {
				how += fmt.Sprintf(", with rests of %s", k.Rest)
			}
			if k.Waiters > 1 {
				how += fmt.Sprintf(", %d waiters a queue", k.Waiters)
			}
			if k.FetchBytes > 0 {
				how += fmt.Sprintf(" of %d bytes at a time", k.FetchBytes)
			}
			line("  %s\t%s\t%s\t%s\t%s", k.Name, concurrencyText(k.Concurrency), queuesText(k.Queues), how, strategy)
		}
		return nil
	}
	for _, tree := range s.Trees {
		line("\nshard %s\t%s", tree.Shard, redisconn.Describe(tree.Settings.RedisURL))
		if err := capsules(tree.Settings); err != nil {
			return err
		}
	}
	if len(s.Trees) == 0 {
		line("\ncapsules:")
		if err := capsules(s); err != nil {
			return err
		}
	}
	if len(s.Periodic) > 0 {
		line("\nperiodic jobs:")
		for _, job := range s.Periodic {
			line("  %s\t%s\t%s", job.Name, job.Class, periodicText(job, s.Zone))
		}
	}
	if len(s.JobLimits) > 0 {
		line("\nlimits:")
		for _, l := range s.JobLimits {
			line("  %s\t%s", l.Key, s.limitText(l))
		}
	}
	if len(s.Outboxes) > 0 {
		line("\noutboxes:")
		for i := range s.Outboxes {
			line("  %s\t%s", s.Outboxes[i].Name, s.Outboxes[i].text())
		}
	}
	line("\nhandlers:")
	for _, h := range s.Handlers {
		class := h.Class
		if class == troupe.AnyClass {
			class = "* (all others)"
		}
		line("  %s\t%s", class, h.text())
	}
	return t.Flush()
}

// periodicText has the line with its zone, which may be the machine's.
func periodicText(job troupe.Periodic, zone *time.Location) string {
	if zone == nil {
		zone = sched.Local()
	}
	schedule, err := sched.Parse(job.Cron, zone)
	if err != nil {
		return job.Cron // a fault of Load's
	}
	text := fmt.Sprintf("%s, missed ticks: %s", schedule, cmp.Or(job.Missed, troupe.MissedSkip))
	if job.Overlap != "" {
		text += fmt.Sprintf(", overlap: %s", job.Overlap)
	}
	if job.Once {
		text += ", dst once"
	}
	if job.Disabled {
		text += ", disabled"
	}
	return text
}

// concurrencyText tells whose default it is: a file that leaves the number to
// Sidekiq 7 or 8 means another one.
func concurrencyText(n int) string {
	if n == 0 {
		return fmt.Sprintf("concurrency %d (the default, as in Sidekiq 6; 7 and 8 have 5)", limits.Concurrency)
	}
	return fmt.Sprintf("concurrency %d", n)
}

// queuesText is like "weighted: critical 3, default 1".
func queuesText(q fetch.Queues) string {
	if q == nil {
		q = fetch.Strict{"default"} // as actors.Capsule has it
	}
	weights := q.List().Weights()
	if l, ok := q.(fetch.WeightedList); ok { // weights of a queue that comes again add up
		clear(weights)
		for _, entry := range l {
			weights[entry.Queue] += max(entry.Weight, 1)
		}
	}
	names := q.List().Names()
	if q.List().Mode() != "strict" {
		for i, name := range names {
			names[i] = fmt.Sprintf("%s %d", name, weights[name])
		}
	}
	return q.List().Mode() + ": " + strings.Join(names, ", ")
}

func (h handlerEntry) text() string {
	var b strings.Builder
	switch {
	case h.Builtin != "":
		b.WriteString("builtin " + h.Builtin)
	case len(h.Exec) > 0:
		b.WriteString("exec " + h.Exec[0])
		if len(h.Exec) > 1 {
			b.WriteString(" …")
		}
		if len(h.Env) > 0 {
			b.WriteString(", env " + strings.Join(names(h.Env), " "))
		}
	case h.HTTP != nil:
		b.WriteString("http " + h.HTTP.text())
		h.Timeout = cmp.Or(h.Timeout, handlerconf.HTTPTimeout)
	}
	if h.Timeout > 0 {
		fmt.Fprintf(&b, ", timeout %s", h.Timeout)
	}
	if h.ExpireAfter > 0 {
		fmt.Fprintf(&b, ", expires after %s", h.ExpireAfter)
	}
	if h.DropExpired {
		b.WriteString(", late jobs are dropped")
	}
	if h.Result {
		b.WriteString(", stdout is the result")
	}
	if h.ResultFor > 0 {
		fmt.Fprintf(&b, ", ends are kept for %s", h.ResultFor)
	}
	if h.Unique != nil {
		b.WriteString(uniqueText(h.Unique))
	}
	b.WriteString(recoveryText(h.Recovery))
	if _, set := h.Take.Percent(); set {
		b.WriteString(", takes " + h.takeText() + " of its jobs")
		if h.RestQueue != "" {
			b.WriteString(", the others handed over to the queue " + h.RestQueue)
		}
	}
	return b.String()
}

func (h *httpEntry) text() string {
	var b strings.Builder
	b.WriteString(h.URL.shownURL())
	if r, err := http.NewRequest(http.MethodPost, h.URL.Value, nil); err == nil { //nolint:noctx // never sent
		if proxy, err := http.ProxyFromEnvironment(r); err == nil && proxy != nil {
			b.WriteString(" through proxy " + maskURL(proxy.String()))
		}
	}
	values := map[string]string{}
	for _, header := range h.Headers {
		values[header.Name] = header.Value.String()
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(&b, ", header %s: %s", name, values[name])
	}
	if secret := h.Secret.String(); secret != "none" {
		b.WriteString(", signed with " + secret)
	}
	return b.String()
}
