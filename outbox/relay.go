package outbox

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/troupehq/troupe/client"
)

// RelayConfig configures a Relay.
type RelayConfig struct {
	// Dialect is that of the database. It must be set.
	Dialect Dialect
	// Poll is how often an idle relay looks for rows, which is about the time from a commit to the push. 0 is 50 ms.
	Poll time.Duration
	// Lease is how long a relay that has died keeps the others waiting. 0 is 10 s.
	Lease time.Duration
	// OnError is called with each fault of the database or of Redis, which the relay waits out. nil calls nothing.
	OnError func(error)
}

// batchRows is how many rows a batch has at most.
const batchRows = 1000

// Relay brings rows to Redis. Any number of processes may have one for the same table: one works, the others wait.
type Relay struct {
	db     *sql.DB
	client *client.Client
	cfg    RelayConfig
	holder string // of this relay

	token string // of its batches; Redis knows the last number of each
	last  int64  // number

	renewed time.Time // when this relay last knew that it works

	mu    sync.Mutex
	stats RelayStats
}

// RelayStats tells how a relay is.
type RelayStats struct {
	Leads   bool   // it is the one that works
	Batches uint64 // it has pushed
	Pushed  uint64 // jobs
	Bad     uint64 // rows that are no jobs
	Err     error  // the fault that it waits out; nil if there is none
}

// NewRelay returns a relay of the tables in db to the Redis of c, whose middleware is called for each job. It does nothing before Run.
func NewRelay(db *sql.DB, c *client.Client, cfg RelayConfig) (*Relay, error) {
	if err := cfg.Dialect.check(); err != nil {
		return nil, err
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	switch {
	case db == nil:
		return nil, errors.New("outbox: db is nil, expected a database")
	case cfg.Poll < 0:
		return nil, fmt.Errorf("outbox: Poll is %s, expected a time above 0, or 0 for 50ms", cfg.Poll)
	case cfg.Lease < 0:
		return nil, fmt.Errorf("outbox: Lease is %s, expected a time above 0, or 0 for 10s", cfg.Lease)
	}
	if cfg.Poll == 0 {
		cfg.Poll = 50 * time.Millisecond
	}
	if cfg.Lease == 0 {
		cfg.Lease = 10 * time.Second
	}
	return &Relay{db: db, client: c, cfg: cfg, holder: rand.Text()}, nil
}

// Stats tells how the relay is. It may be called at any time.
func (r *Relay) Stats() RelayStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats
}

// Run brings rows to Redis until ctx ends. Tables that are missing or of another version are an error at once; while the database
// or Redis is away the rows wait.
func (r *Relay) Run(ctx context.Context) error {
	for checked := false; ctx.Err() == nil; {
		var n int
		var err error
		if !checked {
			if err = r.db.PingContext(ctx); err == nil {
				if err := checkVersion(ctx, r.db); err != nil {
					return err
				}
				checked = true
			}
		}
		if err == nil {
			n, err = r.Once(ctx)
		}
		r.note(ctx, err)
		wait := r.cfg.Poll
		switch {
		case err == nil && n > 0:
			continue
		case err != nil:
			wait = max(wait, time.Second)
		case !r.Stats().Leads:
			wait = max(wait, r.cfg.Lease/3)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return r.leave(context.WithoutCancel(ctx))
}

func (r *Relay) note(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	r.stats.Err = err
	r.mu.Unlock()
	if err != nil && r.cfg.OnError != nil {
		r.cfg.OnError(err)
	}
}

// Once brings one batch to Redis and returns how many rows it has had; 0 if none wait, or another relay works. It is what Run
// repeats, and not for concurrent use.
func (r *Relay) Once(ctx context.Context) (n int, err error) {
	if idle, err := r.idle(ctx); err != nil || idle {
		return 0, wrap(err)
	}
	b, leads, err := r.number(ctx)
	r.mu.Lock()
	r.stats.Leads = leads
	r.mu.Unlock()
	if err != nil || b == nil {
		return 0, wrap(err)
	}
	faults, err := r.client.PushOnce(ctx, "outbox:"+b.token, b.number, b.rows)
	if err != nil {
		return 0, wrap(err)
	}
	bad, err := r.delete(ctx, b, faults)
	if err != nil {
		return 0, wrap(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Batches++
	r.stats.Pushed += uint64(len(b.rows) - bad)
	r.stats.Bad += uint64(bad)
	return len(b.rows), nil
}

func wrap(err error) error {
	if err != nil {
		err = fmt.Errorf("outbox: %w", err)
	}
	return err
}

// leave lets another relay work at once.
func (r *Relay) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, _ = r.exec(ctx, r.db, "UPDATE troupe_outbox_state SET until = 0 WHERE name = 'main' AND holder = ?", r.holder)
	return nil
}

func (r *Relay) exec(ctx context.Context, tx Tx, query string, args ...any) (int64, error) {
	result, err := tx.ExecContext(ctx, r.cfg.Dialect.bind(query), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// idle tells whether this relay works, knows so for a while, and no row waits. It saves the database a write at each look.
func (r *Relay) idle(ctx context.Context) (bool, error) {
	if time.Since(r.renewed) > r.cfg.Lease/3 {
		return false, nil
	}
	var waits bool
	err := r.db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM troupe_outbox)").Scan(&waits)
	return !waits, err
}

// batch is rows that are pushed together.
type batch struct {
	token  string
	number int64
	ids    []int64
	rows   []client.Row // in the order in which they are pushed
}

// number returns the batch that is to be pushed: one that a relay has numbered and not deleted, or a new one; nil if no row waits or
// another relay works. One batch has a number at a time. It is the transaction that decides who works: all change the row
// of the state first.
//
// A relay that takes over, or finds that the database has gone back to an older state, numbers under a token of its own: Redis knows no number of that.
func (r *Relay) number(ctx context.Context) (b *batch, leads bool, err error) {
	began := time.Now()
	tx, err := r.db.BeginTx(ctx, nil)
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
	b = new(batch)
	err = tx.QueryRowContext(ctx, "SELECT token, last, EXISTS (SELECT 1 FROM troupe_outbox WHERE batch IS NOT NULL) FROM troupe_outbox_state WHERE name = 'main'").Scan(&b.token, &b.number, &open)
	if err == nil && !open {
		open, err = r.begin(ctx, tx, b)
	}
	if err == nil && open {
		err = r.read(ctx, tx, b)
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return nil, true, err
	}
	r.renewed = began
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
	n, err := r.exec(ctx, tx, "UPDATE troupe_outbox SET batch = ? WHERE id IN (SELECT id FROM troupe_outbox WHERE batch IS NULL ORDER BY id LIMIT ? FOR UPDATE SKIP LOCKED)", b.number, batchRows)
	if err != nil || n == 0 {
		return false, err
	}
	_, err = r.exec(ctx, tx, "UPDATE troupe_outbox_state SET token = ?, last = ? WHERE name = 'main'", b.token, b.number)
	r.token, r.last = b.token, b.number // should the transaction not end well, the next one begins anew
	return err == nil, err
}

// read reads the rows of the batch.
func (r *Relay) read(ctx context.Context, tx *sql.Tx, b *batch) error {
	found, err := tx.QueryContext(ctx, "SELECT id, queue, at, payload FROM troupe_outbox WHERE batch IS NOT NULL ORDER BY id")
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
			row.At = time.UnixMicro(int64(at.Float64 * 1e6))
		}
		b.ids, b.rows = append(b.ids, id), append(b.rows, row)
	}
	return found.Err()
}

// errLost is told when another relay has taken over.
var errLost = errors.New("another relay has taken over")

// delete removes a batch that is in Redis, and puts the rows aside that are no jobs.
func (r *Relay) delete(ctx context.Context, b *batch, faults []error) (bad int, err error) {
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }()
	n, err := r.exec(ctx, tx, "UPDATE troupe_outbox_state SET until = NOW + ? WHERE name = 'main' AND holder = ? AND token = ? AND last = ?",
		r.cfg.Lease.Seconds(), r.holder, b.token, b.number)
	if err == nil && n == 0 {
		err = errLost
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
	}
	if _, err := r.exec(ctx, tx, "DELETE FROM troupe_outbox WHERE batch = ?", b.number); err != nil {
		return 0, err
	}
	return bad, tx.Commit()
}
