package outbox

import (
	"context"

	"github.com/troupehq/troupe"
)

// Once writes into tx that the running job that ctx belongs to has its effect of this name there, and returns whether it is the
// first to do so: the handler makes the effect in tx only then, and commits. So what lies in this database is done once,
// however often the job runs: the effect and the note are committed together, or neither is. The name tells the effects of one job
// apart, as that of troupe.Token does. The tables are those of Schema.
//
//	first, err := outbox.Once(ctx, tx, outbox.Postgres, "invoice")
//	if err != nil || !first {
//		return err
//	}
//
// Another run that has not committed yet is waited for; where the isolation of tx does not let it see what that has committed,
// the database returns an error, and the next run of the job sees it. A Relay deletes the notes after RelayConfig.Inbox.
//
// It is an error if ctx is not of a running job, or the job has no jid. It may be called concurrently.
func Once(ctx context.Context, tx Tx, d Dialect, name string) (first bool, err error) {
	if err := d.check(); err != nil {
		return false, err
	}
	token, err := troupe.Token(ctx, name)
	if err != nil {
		return false, wrap(err)
	}
	info, _ := troupe.JobInfoFrom(ctx)
	n, err := d.exec(ctx, tx, "ADD INTO troupe_inbox (token, jid, name, at) VALUES (?, ?, ?, NOW)IF_NEW", token, info.JID, name)
	return n > 0, wrap(err)
}
