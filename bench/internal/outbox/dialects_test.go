package outbox

import (
	"context"
	"database/sql"
	"io"
	"log"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/bench/internal/server"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/outbox"
	"github.com/troupehq/troupe/testkit"
)

var (
	pg    *server.Postgres
	maria *server.MariaDB
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(workerEnv); spec != "" {
		os.Exit(beWorker(spec))
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	_ = mysql.SetLogger(log.New(io.Discard, "", 0)) // it writes a line for each connection that a test kills
	var err error
	if server.PostgresMissing() == nil {
		if pg, err = server.StartPostgres(context.Background()); err != nil {
			log.Println(err)
			return 1
		}
		defer pg.Close()
	}
	if server.MariaDBMissing() == nil {
		if maria, err = server.StartMariaDB(context.Background()); err != nil {
			log.Println(err)
			return 1
		}
		defer maria.Close()
	}
	return m.Run()
}

// dialect is a database that the tests are run with.
type dialect struct {
	name     outbox.Dialect
	driver   string
	missing  func() error
	database func(t *testing.T) string // a new one: its data source name
	// kill ends a connection of the database, whatever it does; nil if there are none
	kill func(ctx context.Context, db *sql.DB)
	// restart kills the server and starts it again; nil if there is none
	restart func(ctx context.Context) error
}

var dialects = []dialect{
	{
		name: outbox.Postgres, driver: "pgx", missing: server.PostgresMissing,
		database: func(t *testing.T) string {
			name, err := pg.Database(t.Context(), "")
			must(t, err)
			return pg.URL(name) + " synchronous_commit=on" // or a restart loses what is committed
		},
		kill: func(ctx context.Context, db *sql.DB) {
			_, _ = db.ExecContext(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%batch%' ORDER BY random() LIMIT 1")
		},
		restart: func(ctx context.Context) error { return pg.Restart(ctx) },
	},
	{
		name: outbox.MySQL, driver: "mysql", missing: server.MariaDBMissing,
		database: func(t *testing.T) string {
			name, err := maria.Database(t.Context())
			must(t, err)
			return maria.DSN(name)
		},
		kill: func(ctx context.Context, db *sql.DB) {
			var id string
			if db.QueryRowContext(ctx, "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID() ORDER BY RAND() LIMIT 1").Scan(&id) == nil {
				_, _ = db.ExecContext(ctx, "KILL "+id)
			}
		},
		restart: func(ctx context.Context) error { return maria.Restart(ctx) },
	},
	{
		name: outbox.SQLite, driver: "sqlite", missing: func() error { return nil },
		database: func(t *testing.T) string {
			return "file:" + filepath.Join(t.TempDir(), "shop.db") + "?_txlock=immediate&_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)"
		},
	},
}

// each runs a test with each dialect.
func each(t *testing.T, test func(t *testing.T, b *box)) {
	for _, d := range dialects {
		t.Run(string(d.name), func(t *testing.T) { test(t, newBox(t, d)) })
	}
}

type welcome struct {
	UserID int `arg:"0"`
}

func (welcome) Class() string { return "Welcome" }

func (welcome) Defaults() troupe.Options {
	return troupe.Options{Queue: "mail", Retries: troupe.Times(3)}
}

// box is an outbox in a database of its own, and the Redis of its jobs.
type box struct {
	*outbox.Outbox
	dialect
	url string
	db  *sql.DB
	rdb *redis.Client
}

var databases sync.Mutex

func newBox(t *testing.T, d dialect) *box {
	t.Helper()
	if err := d.missing(); err != nil {
		if os.Getenv("CI") != "" || os.Getenv("TROUPE_NO_SKIP") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	databases.Lock()
	defer databases.Unlock()
	b := &box{dialect: d, url: d.database(t), rdb: testkit.Redis(t)}
	var err error
	b.db, err = sql.Open(d.driver, b.url)
	must(t, err)
	b.db.SetMaxOpenConns(20)
	t.Cleanup(func() { _ = b.db.Close() })
	must(t, outbox.Migrate(t.Context(), b.db, d.name))
	must(t, outbox.Migrate(t.Context(), b.db, d.name)) // changes nothing
	b.Outbox = outbox.New(client.New(b.rdb), d.name)
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (b *box) relay(t *testing.T, rdb redis.UniversalClient, lease time.Duration) *outbox.Relay {
	t.Helper()
	r, err := outbox.NewRelay(b.db, client.New(rdb), outbox.RelayConfig{Dialect: b.name, Lease: lease})
	must(t, err)
	return r
}

func (b *box) exec(t *testing.T, query string) {
	t.Helper()
	_, err := b.db.ExecContext(t.Context(), query)
	must(t, err)
}

func (b *box) count(t *testing.T, table string) (n int) {
	t.Helper()
	must(t, b.db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

// jobs are the payloads of a queue, the oldest first.
func (b *box) jobs(t *testing.T, queue string) (all []*troupe.Payload) {
	t.Helper()
	for _, raw := range b.rdb.LRange(t.Context(), "queue:"+queue, 0, -1).Val() {
		p, err := troupe.ParsePayload([]byte(raw))
		must(t, err)
		all = append([]*troupe.Payload{p}, all...)
	}
	return all
}
