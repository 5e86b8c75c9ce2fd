package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/osproc"
	"github.com/troupehq/troupe/ops"
)

func metricsCommand() *cobra.Command {
	flags := cli.Flags{Files: files{}}
	var listen, names string
	cmd := &cobra.Command{
		Use:   "metrics",
		Short: "Show the metrics of the fleet, or serve them to Prometheus",
		Long: `Metrics prints what Redis tells of queues, sets, processes, limits and orphaned jobs in the format of Prometheus;
with --listen it serves them under /metrics instead. Each scrape asks Redis, for 10 s at most.
Let one process of a fleet do this. The metrics of a daemon are those of "troupe run --ops".

With --names sidekiq they have the names that sidekiq-prometheus-exporter gives them, so that its
dashboards and alerts go on.`,
		Example: "  troupe metrics --listen :9434\n  troupe metrics --json | jq 'select(.name == \"troupe_queue_jobs\")'",
		Args:    cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.Run(cmd, func(ctx context.Context, s *cli.Session) error {
				registry := prometheus.NewRegistry()
				switch names {
				case "troupe":
					registry.MustRegister(ops.Fleet(s.Redis))
				case "sidekiq":
					registry.MustRegister(sidekiqNames{s.Inspector})
				default:
					return cli.Exitf(cli.Fault, "--names is %q, expected troupe or sidekiq", names)
				}
				if listen != "" {
					return serveMetrics(ctx, s, registry, listen)
				}
				return printMetrics(s, registry)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "", "serve them on HOST:PORT; without HOST on the loopback interface")
	f.StringVar(&names, "names", "troupe", "names of the metrics: troupe, or sidekiq for those of sidekiq-prometheus-exporter")
	flags.Add(cmd)
	return cmd
}

// printMetrics prints them, or with --json a value a line.
func printMetrics(s *cli.Session, from prometheus.Gatherer) error {
	families, err := from.Gather()
	if err != nil {
		return err
	}
	for _, family := range families {
		if !s.JSON {
			if _, err := expfmt.MetricFamilyToText(s.Out, family); err != nil {
				return err
			}
			continue
		}
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			value := m.GetGauge().GetValue() + m.GetCounter().GetValue() // it has one of them
			if err := s.PrintJSON(map[string]any{"name": family.GetName(), "labels": labels, "value": value}); err != nil {
				return err
			}
		}
	}
	return nil
}

// serveMetrics serves the metrics until ctx ends. A signal ends it.
func serveMetrics(ctx context.Context, s *cli.Session, from prometheus.Gatherer, address string) error {
	osproc.GoOnWithoutReaders()
	listener, err := cli.Listen(ctx, address)
	if err != nil {
		return cli.Exitf(cli.Fault, "--listen is %q, expected HOST:PORT or :PORT: %w", address, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(from, promhttp.HandlerOpts{CoalesceGather: true}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	_, _ = fmt.Fprintf(s.Err, "serving http://%s/metrics\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
