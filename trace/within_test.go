package trace_test

import (
	"context"
	"testing"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/trace"
)

// The push of what a job pushes with its ack is a child of the span of its run.
func TestAPushWithTheAckIsAChildOfTheRun(t *testing.T) {
	rec := record()
	q := testkit.Fake(t, trace.Client(rec.config()))
	var jobs troupe.Registry
	troupe.Handle(&jobs, func(ctx context.Context, _ *troupe.Job[order]) error {
		_, err := client.Within(ctx).Push(ctx, mail{})
		return err
	})
	harness.Must(q.Client.Push(t.Context(), order{}))(t)
	harness.Must(q.DrainOne(t.Context(), &jobs, trace.Middleware(rec.config())))(t)
	childOf(t, rec.only(t, "send mail"), rec.only(t, "process orders"))
}
