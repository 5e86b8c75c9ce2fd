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
	"github.com/troupehq/troupe/internal/tree"
)

// RelayConfig configures a Relay.
type RelayConfig struct {
	// Dialect is that of the database. It must be set.
	Dialect Dialect
	// Poll is how often an idle relay looks for rows, which is about the time from a commit to the push. 0 is 50 ms.
	Poll time.Duration
	// Lease is how long a relay that has died keeps the others waiting. A batch may take longer. 0 is 10 s.
	Lease time.Duration
	// Keep is how long rows stay in the table when they have been pushed, for Replay. 0 deletes them at once.
	Keep time.Duration
	// Inbox is how long the notes of the function Once stay. It is to be longer than a job may wait for its next run. 0 is 30 weeks: 25 retries, and
	// then 180 days in the dead set.
	Inbox time.Duration
	// OnError is called with each fault of the database or of Redis, which the relay waits out. nil calls nothing.
	OnError func(error)
}

// Relay brings rows to Redis. Any number of processes may have one for the same table: one works, the others wait.
type Relay struct {
	db     *sql.DB
	client *client.Client
	cfg    RelayConfig
	holder string // of this relay

	token string // of its batches; Redis knows the last number of each
	last  int64  // number

	renewed time.Time     // when this relay last knew that it works
	counted time.Time     // when it last counted the rows
	took    time.Duration // how long that took

	mu    sync.Mutex
	stats RelayStats
}

// RelayStats tells how a relay is. It counts rows every 5 s, or less often if that takes long. Times of what there is not are zero.
//
//	State   string // leads, waits, no_database, no_tables or no_redis; "" while it does not run
//	Since   time.Time
//	Error   string // the fault that it waits out
//	Batches uint64 // it has pushed
//	Pushed  uint64 // jobs
//	Bad     uint64 // rows that are no jobs, which it has put into troupe_outbox_bad
//	// What follows is counted by the relay that works.
//	Waiting int64     // rows that are not pushed
//	Oldest  time.Time // when the oldest of them was written
//	Refused int64     // rows of troupe_outbox_bad
//	Reason  string    // of the last of them
type RelayStats = tree.Relay

// The states of a relay.
const (
	Leads      = tree.RelayLeads      // it is the one that works
	Waits      = tree.RelayWaits      // another one works
	NoDatabase = tree.RelayNoDatabase // the database is away, or refuses
	NoTables   = tree.RelayNoTables   // the tables are missing, or of another version
	NoRedis    = tree.RelayNoRedis    // Redis is away, or refuses
)

// fault is an error with the state that it stands for.
type fault struct {
	state string
	error
}

func (f *fault) Unwrap() error { return f.error }

// NewRelay returns a relay of the tables in db to the Redis of c, whose middleware is called for each job. It does nothing before Run.
func NewRelay(db *sql.DB, c *client.Client, cfg RelayConfig) (*Relay, error) {
	if err := cfg.Dialect.check(); err != nil {
		return nil, err
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	if db == nil {
		return nil, errors.New("outbox: db is nil, expected a database")
	}
	for _, d := range []struct {
		name string
		of   *time.Duration
		zero time.Duration
	}{{"Poll", &cfg.Poll, 50 * time.Millisecond}, {"Lease", &cfg.Lease, 10 * time.Second}, {"Keep", &cfg.Keep, 0}, {"Inbox", &cfg.Inbox, 30 * 7 * 24 * time.Hour}} {
		if *d.of < 0 {
			return nil, fmt.Errorf("outbox: %s is %s, expected a time above 0, or 0 for %s", d.name, *d.of, d.zero)
		}
		if *d.of == 0 {
			*d.of = d.zero
		}
	}
	return &Relay{db: db, client: c, cfg: cfg, holder: rand.Text()}, nil
}

// Stats tells how the relay is. It may be called at any time.
func (r *Relay) Stats() RelayStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats
}

// Run brings rows to Redis until ctx ends, and lets another relay work at once then. While the database or Redis is away, or the
// tables are missing or of another version, the rows wait: Stats tells. It may be called again when it has returned, also by a panic of
// a driver.
func (r *Relay) Run(ctx context.Context) error {
	defer r.leave(context.WithoutCancel(ctx))
	r.renewed = time.Time{}
	for checked := false; ctx.Err() == nil; {
		var n int
		err := error(nil)
		if !checked {
			err = r.check(ctx)
		}
		if err == nil {
			n, err = r.Once(ctx)
		}
		checked = err == nil
		wait := r.cfg.Poll
		switch {
		case err == nil && n > 0:
			continue
		case err != nil:
			if why := r.check(ctx); why != nil {
				err = why
			}
			r.note(ctx, err)
			wait = max(wait, time.Second)
		case r.Stats().State == Waits:
			wait = max(wait, r.cfg.Lease/3)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return nil
}

// check looks whether the database is there, and its tables are those of this version.
func (r *Relay) check(ctx context.Context) error {
	ctx, cancel := within(ctx)
	defer cancel()
	if err := r.db.PingContext(ctx); err != nil {
		return &fault{NoDatabase, wrap(err)}
	}
	if err := checkVersion(ctx, r.db); err != nil {
		return &fault{NoTables, err}
	}
	return nil
}

// note notes a fault.
func (r *Relay) note(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	state := NoDatabase
	if f, ok := errors.AsType[*fault](err); ok {
		state = f.state
	}
	r.become(state, err)
	if r.cfg.OnError != nil {
		r.cfg.OnError(err)
	}
}

// become changes the state.
func (r *Relay) become(state string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stats.State != state {
		r.stats.State, r.stats.Since = state, time.Now()
	}
	r.stats.Error = ""
	if err != nil {
		r.stats.Error = err.Error()
	}
}

// Once brings one batch to Redis and returns how many rows it has had; 0 if none wait, or another relay works. It is what Run
// repeats, and not for concurrent use.
func (r *Relay) Once(ctx context.Context) (n int, err error) {
	if idle, err := r.idle(ctx); err != nil || idle {
		return 0, wrap(err)
	}
	defer func() {
		if err != nil {
			r.renewed = time.Time{} // the next one looks for what was broken off
		}
	}()
	b, leads, err := r.number(ctx)
	if err != nil {
		return 0, wrap(err)
	}
	if !leads {
		r.become(Waits, nil)
		return 0, nil
	}
	if b == nil {
		r.become(Leads, nil)
		return 0, r.count(ctx)
	}
	var faults []error
	if r.holding(ctx, func() { faults, err = r.client.PushOnce(ctx, "outbox:"+b.token, b.number, b.rows) }); err != nil {
		return 0, &fault{NoRedis, wrap(err)}
	}
	bad, err := r.finish(ctx, b, faults)
	if err != nil {
		return 0, wrap(err)
	}
	r.become(Leads, nil)
	r.mu.Lock()
	r.stats.Batches++
	r.stats.Pushed += uint64(len(b.rows) - bad)
	r.stats.Bad += uint64(bad)
	r.mu.Unlock()
	if bad > 0 {
		r.counted = time.Time{} // that Stats has the reason
	}
	return len(b.rows), r.count(ctx)
}

func wrap(err error) error {
	if _, told := errors.AsType[*fault](err); err != nil && !told {
		err = fmt.Errorf("outbox: %w", err)
	}
	return err
}

// holding renews the lease until f has returned.
func (r *Relay) holding(ctx context.Context, f func()) {
	ctx, end := context.WithCancel(ctx)
	ended := make(chan any, 1)
	go func() {
		defer func() { ended <- recover() }() // a panic of the driver is one of the relay
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(r.cfg.Lease / 3):
				_, _ = r.exec(ctx, r.db, "UPDATE troupe_outbox_state SET until = NOW + ? WHERE name = 'main' AND holder = ?", r.cfg.Lease.Seconds(), r.holder)
			}
		}
	}()
	defer func() {
		end()
		if v := <-ended; v != nil {
			panic(v)
		}
	}()
	f()
}

// within bounds a step of the database: one that does not answer is away.
func within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 30*time.Second)
}

// leave lets another relay work at once.
func (r *Relay) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, _ = r.exec(ctx, r.db, "UPDATE troupe_outbox_state SET until = 0 WHERE name = 'main' AND holder = ?", r.holder)
	r.become("", nil)
}

func (r *Relay) exec(ctx context.Context, tx Tx, query string, args ...any) (int64, error) {
	return r.cfg.Dialect.exec(ctx, tx, query, args...)
}

// idle tells whether this relay works, knows so for a while, and no row waits. It saves the database a write at each look.
func (r *Relay) idle(ctx context.Context) (bool, error) {
	if time.Since(r.renewed) > r.cfg.Lease/3 {
		return false, nil
	}
	ctx, cancel := within(ctx)
	defer cancel()
	var waits bool
	err := r.db.QueryRowContext(ctx, "SELECT "+numbered+" OR (SELECT id FROM troupe_outbox WHERE batch IS NULL AND done IS NULL ORDER BY id LIMIT 1) IS NOT NULL").Scan(&waits)
	return !waits, err
}

// countEvery is how often the relay that works counts the rows. It does so for at most a twentieth of the time.
const countEvery = 5 * time.Second

// count counts the rows that wait, and those in troupe_outbox_bad.
func (r *Relay) count(ctx context.Context) error {
	began := time.Now()
	if began.Sub(r.counted) < max(countEvery, 20*r.took) {
		return nil
	}
	ctx, cancel := within(ctx)
	defer cancel()
	var waiting, refused int64
	var oldest sql.NullFloat64
	var reason sql.NullString
	err := r.db.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM troupe_outbox WHERE batch IS NULL AND done IS NULL),
	(SELECT written FROM troupe_outbox WHERE batch IS NULL AND done IS NULL ORDER BY id LIMIT 1),
	(SELECT count(*) FROM troupe_outbox_bad), (SELECT reason FROM troupe_outbox_bad ORDER BY id DESC LIMIT 1)`).Scan(&waiting, &oldest, &refused, &reason)
	if err != nil {
		return wrap(err)
	}
	r.counted, r.took = time.Now(), time.Since(began)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Waiting, r.stats.Refused, r.stats.Reason, r.stats.Oldest = waiting, refused, reason.String, time.Time{}
	if oldest.Valid {
		r.stats.Oldest = seconds(oldest.Float64)
	}
	return nil
}

// seconds is a time of the database.
func seconds(s float64) time.Time { return time.UnixMicro(int64(s * 1e6)) }
