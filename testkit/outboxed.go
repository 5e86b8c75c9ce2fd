package testkit

import (
	"context"
	"database/sql"
	"math"
	"testing"
	"time"

	"github.com/troupehq/troupe"
)

// RequireOutboxed fails the test unless exactly one job of A's class whose args fulfil all of match waits in the outbox of a database
// (package outbox) to be pushed, and returns it. In is a *sql.DB, which sees what is committed, or a *sql.Tx, which sees its own
// rows as well. It asks with one SELECT of queue, at and payload, for tests with a fake of database/sql. A relay takes the rows away:
// where one runs, test what has run.
func RequireOutboxed[A troupe.Args](tb testing.TB, in interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}, match ...func(A) bool) *Job[A] {
	tb.Helper()
	class := classOf[A]()
	p := &Pushes{}
	rows, err := in.QueryContext(context.WithoutCancel(tb.Context()), "SELECT queue, at, payload FROM troupe_outbox WHERE done IS NULL ORDER BY id")
	if err != nil {
		tb.Fatalf("outbox: %v", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var queue string
		var at sql.NullFloat64
		var raw []byte
		if err := rows.Scan(&queue, &at, &raw); err != nil {
			tb.Fatalf("outbox: %v", err)
		}
		payload, err := troupe.ParsePayload(raw)
		if err != nil {
			tb.Fatalf("outbox: row %q: %v", raw, err)
		}
		if queue != "" {
			payload.SetString("queue", queue)
		}
		j := Pushed{Payload: payload}
		if at.Valid {
			seconds, part := math.Modf(at.Float64)
			j.At = time.Unix(int64(seconds), int64(part*1e9))
		}
		p.all = append(p.all, j)
	}
	if err := rows.Err(); err != nil {
		tb.Fatalf("outbox: %v", err)
	}
	fits := fitting(tb, p.All(), class, match)
	if len(fits) != 1 {
		tb.Fatalf("expected one job of %s in the outbox that fits, got %d\n%s", class, len(fits), p.list(class))
	}
	return fits[0]
}
