package operate

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/internal/cli"
)

func statsCommand() *cobra.Command {
	return command("stats", "Show the totals", `Stats shows the totals of the whole Redis, as Sidekiq counts them: processed and failed
runs, jobs that wait in queues, run, are scheduled, are to be retried or dead, and how
long the oldest job of the queue default has waited.`, cobra.NoArgs, func(ctx context.Context, s *cli.Session, _ []string) error {
		st, err := s.Inspector.Stats(ctx)
		if err != nil {
			return err
		}
		if s.JSON {
			return s.PrintJSON(map[string]any{
				"processed": st.Processed, "failed": st.Failed, "enqueued": st.Enqueued, "running": st.WorkersSize,
				"scheduled": st.ScheduledSize, "retry": st.RetrySize, "dead": st.DeadSize, "processes": st.ProcessesSize,
				"default_latency_s": seconds(st.DefaultQueueLatency),
			})
		}
		t := s.Table("WHAT", "COUNT")
		for _, row := range []struct {
			what string
			n    int64
		}{
			{"processed", st.Processed}, {"failed", st.Failed}, {"enqueued", st.Enqueued}, {"running", st.WorkersSize},
			{"scheduled", st.ScheduledSize}, {"retry", st.RetrySize}, {"dead", st.DeadSize}, {"processes", st.ProcessesSize},
		} {
			t.Row(row.what, number(row.n))
		}
		t.Row("default latency", brief(st.DefaultQueueLatency))
		return t.Flush()
	})
}
