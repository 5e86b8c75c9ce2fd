package outbox

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/troupehq/troupe/client"
)

// A batch has so many rows at most, and so many bytes of payloads, or one row.
const (
	batchRows  = 1000
	batchBytes = 16 << 20
)

// batch is rows that are pushed together. It has nothing to do with the batches that count jobs.
type batch struct {
	token  string
	number int64
	ids    []int64
	rows   []client.Row // in the order in which they are pushed
}

// numbered tells whether rows have a number and are not finished. Its ORDER and LIMIT have the database use the index, which knows nothing yet of
// how few rows have a number.
const numbered = "(SELECT id FROM troupe_outbox WHERE batch IS NOT NULL AND done IS NULL ORDER BY batch, id LIMIT 1) IS NOT NULL"

// number returns the batch that is to be pushed: one that a relay has numbered and not finished, or a new one; nil if no row waits or
// another relay works. One batch has a number at a time. It is the transaction that decides who works: all change the row
// of the state first.
//
// A relay that takes over, or finds that the database has gone back to an older state, numbers under a token of its own: Redis knows no number of that.
func (r *Relay) number(ctx context.Context) (b *batch, leads bool, err error) {
	ctx, cancel := within(ctx)
	defer cancel()
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{Isolation: dialects[r.cfg.Dialect].isolation})
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = tx.Rollback() }()
	n, err := r.exec(ctx, tx, "UPDATE troupe_outbox_state SET holder = ?, until = NOW + ? WHERE name = 'main' AND (holder = ? OR until < NOW)",
		r.holder, r.cfg.Lease.Seconds(), r.holder)
	if err != nil || n == 0 {
		return nil, false, err
	}
	var open bool
	var v int
	b = new(batch)
	err = tx.QueryRowContext(ctx, "SELECT version, token, last, "+numbered+" FROM troupe_outbox_state WHERE name = 'main'").Scan(&v, &b.token, &b.number, &open)
	if err == nil {
		if err = wrongVersion(v); err != nil {
			err = &fault{NoTables, err}
		}
	}
	more := false // rows are to be removed
	if err == nil {
		more, err = r.sweep(ctx, tx)
	}
	most := math.MaxInt // one that is numbered is as it is
	if err == nil && !open {
		open, err = r.begin(ctx, tx, b)
		most = batchBytes
	}
	if err == nil && open {
		err = r.read(ctx, tx, b, most)
	}
	if err == nil {
		_, err = r.exec(ctx, tx, "UPDATE troupe_outbox_state SET until = NOW + ? WHERE name = 'main'", r.cfg.Lease.Seconds())
	}
	began := time.Now()
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return nil, true, err
	}
	if r.renewed = began; more {
		r.renewed = time.Time{}
	}
	if !open {
		return nil, true, nil
	}
	return b, true, nil
}

// begin numbers a new batch; false if no row waits.
func (r *Relay) begin(ctx context.Context, tx *sql.Tx, b *batch) (bool, error) {
	if b.token != r.token || b.number != r.last {
		b.token, b.number = rand.Text(), 0
	}
	b.number++
	n, err := r.exec(ctx, tx, "NUMBER_BATCH", b.number)
	if err != nil || n == 0 {
		return false, err
	}
	_, err = r.exec(ctx, tx, "UPDATE troupe_outbox_state SET token = ?, last = ? WHERE name = 'main'", b.token, b.number)
	r.token, r.last = b.token, b.number // should the transaction not end well, the next one begins anew
	return err == nil, err
}

// read reads the rows of the batch, at most so many bytes of them. The others lose their number.
func (r *Relay) read(ctx context.Context, tx *sql.Tx, b *batch, most int) error {
	found, err := tx.QueryContext(ctx, "SELECT id, queue, at, payload FROM troupe_outbox WHERE batch IS NOT NULL AND done IS NULL ORDER BY batch, id LIMIT 1000") // batchRows
	if err != nil {
		return err
	}
	defer func() { _ = found.Close() }()
	for found.Next() {
		var id int64
		var row client.Row
		var at sql.NullFloat64
		if err := found.Scan(&id, &row.Queue, &at, &row.Payload); err != nil {
			return err
		}
		if at.Valid {
			row.At = seconds(at.Float64)
		}
		if most -= len(row.Payload); most < 0 && len(b.ids) > 0 {
			_ = found.Close()
			_, err := r.exec(ctx, tx, "UPDATE troupe_outbox SET batch = NULL WHERE batch IS NOT NULL AND done IS NULL AND id >= ?", id)
			return err
		}
		b.ids, b.rows = append(b.ids, id), append(b.rows, row)
	}
	return found.Err()
}

// errLost is told when another relay has taken over.
var errLost = &fault{Waits, errors.New("outbox: another relay has taken over")}

// finish removes a batch that is in Redis, or notes when it was pushed, and puts the rows aside that are no jobs.
func (r *Relay) finish(ctx context.Context, b *batch, faults []error) (bad int, err error) {
	ctx, cancel := within(ctx)
	defer cancel()
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{Isolation: dialects[r.cfg.Dialect].isolation})
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }()
	n, err := r.exec(ctx, tx, "UPDATE troupe_outbox_state SET until = NOW + ? WHERE name = 'main' AND holder = ? AND token = ? AND last = ?",
		r.cfg.Lease.Seconds(), r.holder, b.token, b.number)
	if err == nil && n == 0 {
		return 0, errLost
	}
	if err != nil {
		return 0, err
	}
	for i, fault := range faults {
		if fault == nil {
			continue
		}
		bad++
		if _, err := r.exec(ctx, tx, "INSERT INTO troupe_outbox_bad (id, queue, at, payload, reason, since) SELECT id, queue, at, payload, ?, NOW FROM troupe_outbox WHERE id = ?",
			fault.Error(), b.ids[i]); err != nil {
			return 0, err
		}
		if _, err := r.exec(ctx, tx, "DELETE FROM troupe_outbox WHERE id = ?", b.ids[i]); err != nil {
			return 0, err
		}
	}
	query := "DELETE FROM troupe_outbox WHERE batch = ? AND done IS NULL"
	if r.cfg.Keep > 0 {
		query = "UPDATE troupe_outbox SET done = NOW WHERE batch = ? AND done IS NULL"
	}
	if _, err := r.exec(ctx, tx, query, b.number); err != nil {
		return 0, err
	}
	return bad, tx.Commit()
}

// sweep removes rows that were pushed longer ago than they are kept, and old notes of Once, of each twice as many as a batch has
// rows. It tells whether there may be more.
func (r *Relay) sweep(ctx context.Context, tx Tx) (more bool, err error) {
	for _, of := range []struct {
		table, key, time string
		keep             time.Duration
	}{{"troupe_outbox", "id", "done", r.cfg.Keep}, {"troupe_inbox", "token", "at", r.cfg.Inbox}} {
		n, err := r.exec(ctx, tx, fmt.Sprintf(dialects[r.cfg.Dialect].sweep, of.table, of.key, of.time), of.keep.Seconds(), 2*batchRows)
		if err != nil {
			return false, err
		}
		more = more || n == 2*batchRows
	}
	return more, nil
}

// Replay has the rows pushed again that were pushed at since or later and are kept still, for a Redis that has lost its data, and returns how
// many they are. What of them has run runs again. A relay pushes them; the call needs none.
func Replay(ctx context.Context, db *sql.DB, d Dialect, since time.Time) (n int64, err error) {
	if err := d.check(); err != nil {
		return 0, err
	}
	if err := checkVersion(ctx, db); err != nil {
		return 0, err
	}
	n, err = d.exec(ctx, db, "UPDATE troupe_outbox SET batch = NULL, done = NULL WHERE done >= ?", float64(since.UnixMicro())/1e6)
	return n, wrap(err)
}
