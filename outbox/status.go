package outbox

import (
	"context"
	"database/sql"
	"time"
)

// Status tells what is in the tables.
type Status struct {
	Version int       `json:"version"` // of the tables
	Led     bool      `json:"led"`     // a relay has the lease
	Waiting int64     `json:"waiting"` // rows that are not pushed
	Oldest  time.Time `json:"oldest,omitzero"`
	Kept    int64     `json:"kept"`    // rows that are pushed
	Refused int64     `json:"refused"` // rows in troupe_outbox_bad
	Last    []BadRow  `json:"last"`    // of those, the newest first, at most ten
}

// BadRow is a row that can be no job.
type BadRow struct {
	ID     int64     `json:"id"`
	Queue  string    `json:"queue"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
}

// ReadStatus looks at the tables. Its user needs SELECT on them.
func ReadStatus(ctx context.Context, db *sql.DB, d Dialect) (*Status, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	if err := db.PingContext(ctx); err != nil {
		return nil, wrap(err)
	}
	if err := checkVersion(ctx, db); err != nil {
		return nil, err
	}
	s := &Status{Version: version, Last: []BadRow{}}
	var oldest sql.NullFloat64
	if err := db.QueryRowContext(ctx, d.bind(`SELECT (SELECT count(*) FROM troupe_outbox_state WHERE name = 'main' AND until > NOW) > 0,
	(SELECT count(*) FROM troupe_outbox WHERE done IS NULL), (SELECT min(written) FROM troupe_outbox WHERE done IS NULL),
	(SELECT count(*) FROM troupe_outbox WHERE done IS NOT NULL), (SELECT count(*) FROM troupe_outbox_bad)`)).Scan(&s.Led, &s.Waiting, &oldest, &s.Kept, &s.Refused); err != nil {
		return nil, wrap(err)
	}
	if oldest.Valid {
		s.Oldest = seconds(oldest.Float64)
	}
	rows, err := db.QueryContext(ctx, "SELECT id, queue, reason, since FROM troupe_outbox_bad ORDER BY id DESC LIMIT 10")
	if err != nil {
		return nil, wrap(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var b BadRow
		var since float64
		if err := rows.Scan(&b.ID, &b.Queue, &b.Reason, &since); err != nil {
			return nil, wrap(err)
		}
		b.Since = seconds(since)
		s.Last = append(s.Last, b)
	}
	return s, wrap(rows.Err())
}
