package outbox_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"strings"
)

// table is a database that knows the two statements of an outbox, for one connection at a time.
type table struct {
	jobs   []string
	refuse error // of a commit
}

func (d *table) Connect(context.Context) (driver.Conn, error) { return &conn{table: d}, nil }
func (d *table) Driver() driver.Driver                        { return nil }

type conn struct {
	*table
	staged []string // of the transaction: the jobs as they are to be
}

func (c *conn) Close() error              { return nil }
func (c *conn) Begin() (driver.Tx, error) { c.staged = c.jobs; return c, nil }
func (c *conn) Rollback() error           { return nil }

func (c *conn) Commit() error {
	if c.refuse == nil {
		c.jobs = c.staged
	}
	return c.refuse
}

func (c *conn) Prepare(query string) (driver.Stmt, error) { return &stmt{c, query}, nil }

type stmt struct {
	conn  *conn
	query string
}

func (s *stmt) Close() error  { return nil }
func (s *stmt) NumInput() int { return strings.Count(s.query, "$") }

func (s *stmt) Exec(args []driver.Value) (driver.Result, error) {
	if !strings.HasPrefix(s.query, "INSERT INTO outbox (job)") {
		return nil, errors.New("exec: " + s.query)
	}
	s.conn.staged = append(s.conn.staged[:len(s.conn.staged):len(s.conn.staged)], args[0].(string))
	return driver.RowsAffected(1), nil
}

func (s *stmt) Query([]driver.Value) (driver.Rows, error) {
	if !strings.HasPrefix(s.query, "DELETE FROM outbox WHERE id IN (SELECT") {
		return nil, errors.New("query: " + s.query)
	}
	all := rows(s.conn.staged)
	s.conn.staged = nil
	return &all, nil
}

// rows are those that are left.
type rows []string

func (r *rows) Columns() []string { return []string{"job"} }
func (r *rows) Close() error      { return nil }

func (r *rows) Next(dest []driver.Value) error {
	if len(*r) == 0 {
		return io.EOF
	}
	dest[0] = (*r)[0]
	*r = (*r)[1:]
	return nil
}
