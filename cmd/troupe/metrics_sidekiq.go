package main

import (
	"context"
	"errors"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/troupehq/troupe/inspect"
)

// sidekiqNames has the metrics of a fleet by the names of sidekiq-prometheus-exporter.
type sidekiqNames struct{ inspector *inspect.Inspector }

// Describe tells no names: they are all made by Collect.
func (sidekiqNames) Describe(chan<- *prometheus.Desc) {}

// Collect asks Redis for 10 s at most.
func (n sidekiqNames) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	tell := func(kind prometheus.ValueType, name, help string, v float64, queue ...string) {
		for i, q := range queue {
			if !utf8.ValidString(q) {
				queue[i] = strconv.QuoteToASCII(q)
			}
		}
		desc := prometheus.NewDesc("sidekiq_"+name, help, []string{"name"}[:len(queue)], nil)
		ch <- prometheus.MustNewConstMetric(desc, kind, v, queue...)
	}
	const total, now = prometheus.CounterValue, prometheus.GaugeValue
	stats, err1 := n.inspector.Stats(ctx)
	processes, err2 := n.inspector.Processes(ctx)
	queues, err3 := n.inspector.Queues(ctx)
	works, err4 := n.inspector.Works(ctx)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		ch <- prometheus.NewInvalidMetric(prometheus.NewDesc("sidekiq_workers", "Not known.", nil, nil), err)
		return
	}
	workers := 0
	for _, p := range processes {
		workers += p.Concurrency
	}
	tell(total, "processed_jobs_total", "Runs of jobs since the totals were reset.", float64(stats.Processed))
	tell(total, "failed_jobs_total", "Those of them that failed.", float64(stats.Failed))
	tell(now, "workers", "Jobs that all processes can run at once.", float64(workers))
	tell(now, "processes", "Processes on the list.", float64(len(processes)))
	tell(now, "busy_workers", "Jobs that run.", float64(stats.WorkersSize))
	tell(now, "enqueued_jobs", "Jobs in all queues.", float64(stats.Enqueued))
	tell(now, "scheduled_jobs", "Jobs in the set schedule.", float64(stats.ScheduledSize))
	tell(now, "retry_jobs", "Jobs in the set retry.", float64(stats.RetrySize))
	tell(now, "dead_jobs", "Jobs in the set dead.", float64(stats.DeadSize))
	for _, q := range queues {
		tell(now, "queue_latency_seconds", "Time since the push of the oldest job of the queue.", q.Latency.Seconds(), q.Name)
		tell(now, "queue_enqueued_jobs", "Jobs in the queue.", float64(q.Size), q.Name)
	}
	seen := map[string]bool{}
	for _, w := range works { // the longest first
		if !seen[w.Queue] {
			seen[w.Queue] = true
			tell(now, "queue_max_processing_time_seconds", "Time since the start of the job of the queue that has run for the longest.", time.Since(w.RunAt).Seconds(), w.Queue)
		}
	}
}
