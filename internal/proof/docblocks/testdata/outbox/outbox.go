// Package outbox has what the comments of package outbox take for granted.
package outbox

import (
	"context"
	"database/sql"
)

// tx is a transaction with the methods of database/sql and of pgx.
var tx pgxTx

type pgxTx struct{}

// Exec carries out a statement.
func (pgxTx) Exec(context.Context, string, ...any) (interface{ RowsAffected() int64 }, error) {
	return nil, nil
}

// ExecContext does so, too.
func (pgxTx) ExecContext(context.Context, string, ...any) (sql.Result, error) { return nil, nil }

// Welcome are the arguments of a job.
type Welcome struct{ UserID int }

// Class is its name.
func (Welcome) Class() string { return "Welcome" }
