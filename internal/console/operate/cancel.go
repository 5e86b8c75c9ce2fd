package operate

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/bulk"
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
		use: "cancel [SET|running|queue:NAME] JID", short: "Cancel a job, wherever it is", args: cli.Args(1, 2), words: append(slices.Clone(bulk.Sets), "running"), names: queueKeys, change: "cancelling a job",
		long: `Cancel deletes a job that waits in a queue, is scheduled or is to be retried, or that a process of
troupe has fetched and not begun, and says where it was. Of a job that runs in a process of troupe it
ends the context, with the cause troupe.ErrCancelled. What becomes of that is its handler's affair:
one that returns the error is retried, one that ignores it goes on and is shown as unresponsive. In a
process of Ruby only iterable jobs can be cancelled; they end within some seconds. An iterable job that
has begun and waits ends when it runs next, so that its OnCancel runs. A job that a dead process has
left cannot be cancelled until it is back in its queue, within a minute: the exit code is 4, or 3
while nobody knows that the process is dead. With a set or a queue before its name the job must
be there.`,
		run: func(ctx context.Context, s *cli.Session, args []string) error {
			jid := args[len(args)-1]
			s.About([]string{"jobs", jid, "cancel"}, jid)
			if len(args) > 1 {
				if _, err := found(ctx, s, args); err != nil {
					return err
				}
			}
			call, stop := context.WithTimeout(ctx, replyTime)
			defer stop()
			got, err := s.Inspector.Cancel(call, jid)
			switch {
			case errors.As(err, new(*inspect.RefusedError)):
				return &cli.ExitError{Code: cli.Refused, Err: err}
			case errors.Is(err, inspect.ErrNoReply):
				return &cli.ExitError{Code: cli.Partly, Err: err}
			}
			got.Rule = ruleText(s.Mask, got.Rule)
			shown := cancelled{JID: jid, Place: got.Place, Queue: got.Queue, Process: got.Process, Deleted: got.Deleted}
			return said(s, err, shown, "cancelled %s: %s", jid, got)
		},
	}.command(files)
}
