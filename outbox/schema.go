package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// version is that of the tables.
const version = 1

// schema has the tables, in the words of dialects.
const schema = `CREATE TABLE IF NOT EXISTS troupe_outbox (
	id COUNTER,
	queue varchar(255) NOT NULL DEFAULT '',
	at double precision,
	payload LONG NOT NULL,
	written double precision NOT NULL DEFAULT (NOW),
	batch bigint,
	done double precisionINDEXES
)STORAGE;
PARTIALCREATE TABLE IF NOT EXISTS troupe_outbox_bad (
	id bigint PRIMARY KEY,
	queue varchar(255) NOT NULL,
	at double precision,
	payload LONG NOT NULL,
	reason LONG NOT NULL,
	since double precision NOT NULL
)STORAGE;
CREATE TABLE IF NOT EXISTS troupe_outbox_state (
	name varchar(64) PRIMARY KEY,
	version integer NOT NULL,
	holder varchar(64) NOT NULL,
	until double precision NOT NULL,
	token varchar(64) NOT NULL,
	last bigint NOT NULL
)STORAGE;
CREATE TABLE IF NOT EXISTS troupe_inbox (
	token varchar(64) PRIMARY KEY,
	jid LONG NOT NULL,
	name LONG NOT NULL,
	at double precision NOT NULL,
	UNIQUE (at, token)
)STORAGE;
ADD INTO troupe_outbox_state (name, version, holder, until, token, last) VALUES ('main', 1, '', 0, '', 0)IF_NEW;
`

// partial are the indexes where there are some of a part of the rows.
const partial = `CREATE INDEX IF NOT EXISTS troupe_outbox_open ON troupe_outbox (id) WHERE batch IS NULL;
CREATE INDEX IF NOT EXISTS troupe_outbox_batch ON troupe_outbox (batch, id) WHERE batch IS NOT NULL AND done IS NULL;
CREATE INDEX IF NOT EXISTS troupe_outbox_done ON troupe_outbox (done) WHERE done IS NOT NULL;
`

// Schema returns the statements that make the tables, each ended by a semicolon and a line break. They change nothing that is there.
func Schema(d Dialect) (string, error) {
	if err := d.check(); err != nil {
		return "", err
	}
	return d.bind(schema), nil
}

// Migrate makes the tables that are missing. Tables of a later version are an error.
func Migrate(ctx context.Context, db *sql.DB, d Dialect) error {
	text, err := Schema(d)
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	for _, statement := range strings.SplitAfter(text, ";\n") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("outbox: %w", err)
		}
	}
	if err := checkVersion(ctx, tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	return nil
}

// querier is a *sql.DB or *sql.Tx.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func checkVersion(ctx context.Context, q querier) error {
	var v int
	if err := q.QueryRowContext(ctx, "SELECT version FROM troupe_outbox_state WHERE name = 'main'").Scan(&v); err != nil {
		return fmt.Errorf("outbox: the tables are not there, see Migrate: %w", err)
	}
	return wrongVersion(v)
}

// wrongVersion is why tables of version v are not those of this program; nil if they are.
func wrongVersion(v int) error {
	if v != version {
		return fmt.Errorf("outbox: the tables are of version %d, expected %d", v, version)
	}
	return nil
}
