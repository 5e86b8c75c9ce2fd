// Package outbox pushes jobs in a transaction of a database: the rows and their jobs are there together, or
// neither is. A job waits in a table until it is in Redis:
//
//	CREATE TABLE outbox (id bigserial PRIMARY KEY, job text NOT NULL)
//
// The statements are PostgreSQL's.
package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
)

// Outbox is a table of jobs, and the Redis that they go to.
type Outbox struct {
	db   *sql.DB
	jobs *client.Client // pushes into Redis
	rows *client.Client // writes into the table instead
}

// writing is what a push needs to know of its transaction, and says of its job.
type writing struct {
	tx  *sql.Tx
	jid string
}

type writingKey struct{}

// New returns the Outbox of db. Client options, middleware among them, are those of each push.
func New(db *sql.DB, rdb redis.UniversalClient, opts ...client.ClientOption) *Outbox {
	write := func(client.PushFunc) client.PushFunc {
		return func(ctx context.Context, p *troupe.Payload) error {
			w := ctx.Value(writingKey{}).(*writing)
			w.jid = p.JID()
			_, err := w.tx.ExecContext(ctx, "INSERT INTO outbox (job) VALUES ($1)", string(p.Bytes()))
			return err // next is not called: nothing goes to Redis
		}
	}
	return &Outbox{db: db, jobs: client.New(rdb), rows: client.New(rdb, append(opts, client.WithMiddleware(write))...)}
}

// Push writes a job into the table, in tx.
func (o *Outbox) Push(ctx context.Context, tx *sql.Tx, args troupe.Args, opts ...client.Option) (jid string, err error) {
	w := &writing{tx: tx}
	_, err = o.rows.Push(context.WithValue(ctx, writingKey{}, w), args, opts...)
	if errors.Is(err, client.ErrStopped) && w.jid != "" { // by the middleware, which has written it
		return w.jid, nil
	}
	return "", err
}

// Relay brings the jobs from the table to Redis until ctx ends; any number of processes may do so.
func (o *Outbox) Relay(ctx context.Context) {
	for ctx.Err() == nil {
		n, err := o.Once(ctx)
		if err != nil && ctx.Err() == nil {
			zerolog.Ctx(ctx).Error().Err(err).Msg("the outbox waits")
		}
		if n > 0 && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// Once brings at most 100 jobs to Redis. If it is interrupted between the push and the commit, they are pushed
// again, with the same jids.
func (o *Outbox) Once(ctx context.Context) (n int, err error) {
	tx, err := o.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // of nothing, after the commit
	list, err := take(ctx, tx)
	if err != nil {
		return 0, fmt.Errorf("take jobs: %w", err)
	}
	for _, raw := range list {
		p, err := troupe.ParsePayload([]byte(raw))
		if err == nil {
			_, err = o.jobs.PushPayload(ctx, p)
		}
		if err != nil && !errors.Is(err, client.ErrStopped) { // a duplicate of a unique job is done with
			return 0, fmt.Errorf("relay: %w", err)
		}
	}
	return len(list), tx.Commit()
}

func take(ctx context.Context, tx *sql.Tx) (list []string, err error) {
	rows, err := tx.QueryContext(ctx, "DELETE FROM outbox WHERE id IN (SELECT id FROM outbox ORDER BY id LIMIT 100 FOR UPDATE SKIP LOCKED) RETURNING job")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var raw string
		if err := rows.Scan(&raw); err != nil {
			return nil, err
		}
		list = append(list, raw)
	}
	return list, rows.Err()
}
