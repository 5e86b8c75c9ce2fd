package operate

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/cli"
)

// cancelled is what --json shows of a job that was cancelled.
type cancelled struct {
	JID     string        `json:"jid"`
	Place   inspect.Place `json:"place"`
	Queue   string        `json:"queue"`
	Process string        `json:"process"`
	Deleted bool          `json:"deleted"`
}

func cancelCommand(files cli.Files) *cobra.Command {
	return spec{
		use: "cancel JID", short: "Cancel a job, wherever it is", args: cli.Args(1, 1), change: "cancelling a job",
		long: `Cancel deletes a job that waits in a queue, is scheduled or is to be retried, and says where it
was. Of a job that runs in a process of troupe it ends the context, with the cause
troupe.ErrCancelled. What becomes of that is its handler's affair: one that returns the error is
retried, one that ignores it goes on and is shown as unresponsive. In a process of Ruby only
iterable jobs can be cancelled; they end within some seconds. An iterable job that has begun and
waits ends when it runs next, so that its OnCancel runs.`,
		run: func(ctx context.Context, s *cli.Session, args []string) error {
			s.About([]string{"jobs", args[0], "cancel"}, args[0])
			call, stop := context.WithTimeout(ctx, replyTime)
			defer stop()
			found, err := s.Inspector.Cancel(call, args[0])
			switch {
			case errors.As(err, new(*inspect.RefusedError)):
				return &cli.ExitError{Code: cli.Refused, Err: err}
			case errors.Is(err, inspect.ErrNoReply):
				return &cli.ExitError{Code: cli.Partly, Err: err}
			}
			shown := cancelled{JID: args[0], Place: found.Place, Queue: found.Queue, Process: found.Process, Deleted: found.Deleted}
			return said(s, err, shown, "cancelled %s: %s", args[0], found)
		},
	}.command(files)
}
