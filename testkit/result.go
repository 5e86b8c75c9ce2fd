package testkit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/jobctx"
)

// RequireResult returns the result of a job that was run by Drain, by Inline or by a handler that pushed it there: what its handler gave to
// troupe.SetResult, or the function of troupe.HandleResult returned. It fails the test if the job has not run, or has failed, and
// if the result does not fit R. A job without a result has the zero R. With a whole daemon client.Await returns results; on a client of
// Fake it waits in vain.
func RequireResult[R any](tb testing.TB, p *Pushes, jid string) (result R) {
	tb.Helper()
	p.mu.Lock()
	text, done := p.results[jid]
	p.mu.Unlock()
	if !done {
		tb.Fatalf("job %s is not done: it was not run, or has failed; %s", jid, p.listAll())
	}
	if err := json.Unmarshal(text, &result); err != nil {
		tb.Fatalf("job %s: the result %s does not fit %T: %v", jid, text, result, err)
	}
	return result
}

// listAll is the jobs that were pushed.
func (p *Pushes) listAll() string {
	var b bytes.Buffer
	for _, j := range p.All() {
		fmt.Fprintf(&b, "pushed: %s of %s\n", j.JID(), j.Class())
	}
	return b.String()
}

// setResult notes that a job is done, with this result.
func (p *Pushes) setResult(jid string, text json.RawMessage) {
	if text == nil {
		text = json.RawMessage("null")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.results == nil {
		p.results = map[string]json.RawMessage{}
	}
	p.results[jid] = text
}

// teller takes what a handler tells of its job.
type teller struct{ *job.Report }

// SetProgress is what troupe.SetProgress calls.
func (t teller) SetProgress(done, total int64, text string) {
	t.Report.SetProgress(done, total, text, false)
}

func withTeller(ctx context.Context) (context.Context, *job.Report) {
	r := new(job.Report)
	return context.WithValue(ctx, jobctx.Report{}, teller{r}), r
}
