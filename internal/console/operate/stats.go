package operate

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/words"
)

func statsCommand(files cli.Files) *cobra.Command {
	return spec{
		use: "stats", short: "Show the totals", args: cli.Args(0, 0),
		long: `Stats shows the totals of the whole Redis, as Sidekiq counts them: processed and failed
runs, jobs that wait in queues, run, are scheduled, are to be retried or dead, and how
long the oldest job of the queue default has waited.`,
		run: func(ctx context.Context, s *cli.Session, _ []string) error {
			st, err := s.Inspector.Stats(ctx)
			if err != nil {
				return err
			}
			counts := []struct {
				name string
				n    int64
			}{
				{"processed", st.Processed}, {"failed", st.Failed}, {"enqueued", st.Enqueued}, {"running", st.WorkersSize},
				{"scheduled", st.ScheduledSize}, {"retry", st.RetrySize}, {"dead", st.DeadSize}, {"processes", st.ProcessesSize},
			}
			if s.JSON {
				all := map[string]any{"default_latency_s": seconds(st.DefaultQueueLatency)}
				for _, c := range counts {
					all[c.name] = c.n
				}
				return s.PrintJSON(all)
			}
			t := s.Table("WHAT", "COUNT")
			for _, c := range counts {
				t.Row(c.name, number(c.n))
			}
			t.Row("default latency", words.Brief(st.DefaultQueueLatency))
			return t.Flush()
		},
	}.command(files)
}
