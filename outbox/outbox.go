package outbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/job"
)

// Tx is a transaction, or anything else that carries out a statement: *sql.Tx, *sql.Conn, *sql.DB, and what sqlx,
// gorm and ent make of them. See also ExecFunc.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// ExecFunc makes a Tx of a function that returns how many rows it has changed, for a driver with a transaction of its own. For pgx:
//
//	within := outbox.ExecFunc(func(ctx context.Context, query string, args ...any) (int64, error) {
//		tag, err := tx.Exec(ctx, query, args...)
//		return tag.RowsAffected(), err
//	})
type ExecFunc func(ctx context.Context, query string, args ...any) (rows int64, err error)

// ExecContext calls f.
func (f ExecFunc) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	n, err := f(ctx, query, args...)
	return driver.RowsAffected(n), err
}

// Outbox writes jobs into the table. It is safe for concurrent use.
type Outbox struct {
	dialect Dialect
	rows    *client.Client
}

// New returns the Outbox for databases that speak dialect. The options, middleware and defaults of c are those of each push; its
// Redis is not asked. A fault in what is given is told by each push.
func New(c *client.Client, dialect Dialect) *Outbox {
	o := &Outbox{dialect: dialect, rows: c}
	if c.Err() == nil {
		o.rows = c.Taking(o.insert)
	}
	return o
}

// Push writes a job into the table, in tx, and returns its jid, which is final. All options of client.Client.Push count but
// client.Unique and client.Debounce, which need Redis: they are a *client.FieldError.
func (o *Outbox) Push(ctx context.Context, tx Tx, args troupe.Args, opts ...client.Option) (jid string, err error) {
	return o.rows.Push(with(ctx, tx), args, opts...)
}

// PushClass is Push for a class without a Go type, as client.Client.PushClass.
func (o *Outbox) PushClass(ctx context.Context, tx Tx, class string, args []any, opts ...client.Option) (jid string, err error) {
	return o.rows.PushClass(with(ctx, tx), class, args, opts...)
}

// PushMany writes jobs of any classes, up to 100 with each statement, as client.Client.PushMany.
func (o *Outbox) PushMany(ctx context.Context, tx Tx, items ...client.Item) (jids []string, err error) {
	return o.rows.PushMany(with(ctx, tx), items...)
}

type txKey struct{}

func with(ctx context.Context, tx Tx) context.Context { return context.WithValue(ctx, txKey{}, tx) }

// insertRows is how many rows one statement writes.
const insertRows = 100

// insert writes pushes into the table. It returns nil, or the error of each.
func (o *Outbox) insert(ctx context.Context, pushes []job.Push) []error {
	tx, _ := ctx.Value(txKey{}).(Tx)
	err := o.dialect.check()
	if err == nil && tx == nil {
		err = &client.FieldError{Field: "tx", Got: "nil", Want: "a transaction"}
	}
	for _, p := range pushes {
		if p.Lock != nil {
			err = errors.Join(err, &client.FieldError{Field: "Unique", Got: "it for a job of an outbox", Want: "none: its lock is in Redis, and the transaction may not be committed"})
			break
		}
	}
	for rest := pushes; err == nil && len(rest) > 0; {
		n := min(insertRows, len(rest))
		err = o.insertSome(ctx, tx, rest[:n])
		rest = rest[n:]
	}
	if err == nil {
		return nil
	}
	errs := make([]error, len(pushes))
	for i := range errs {
		errs[i] = err
	}
	return errs
}

func (o *Outbox) insertSome(ctx context.Context, tx Tx, pushes []job.Push) error {
	query := []byte("INSERT INTO troupe_outbox (queue, at, payload) VALUES ")
	var args []any
	for i, p := range pushes {
		if i > 0 {
			query = append(query, ", "...)
		}
		query = append(query, "(?, ?, ?)"...)
		var at any
		if p.Score != "" {
			seconds, err := strconv.ParseFloat(p.Score, 64)
			if err != nil {
				return err
			}
			at = seconds
		}
		args = append(args, p.Queue, at, string(p.Payload))
	}
	if _, err := tx.ExecContext(ctx, o.dialect.bind(string(query)), args...); err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	return nil
}
