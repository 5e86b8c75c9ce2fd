package config

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/outbox"
)

// noDriver stands for the one of PostgreSQL, which the command has.
type noDriver struct{}

func (noDriver) Open(string) (driver.Conn, error) { return nil, errors.New("no database") }

func init() {
	for _, d := range dialects {
		if d.name != outbox.SQLite { // which stands for one whose driver is not linked
			sql.Register(d.driver, noDriver{})
		}
	}
}

// What apps have as DATABASE_URL is what the drivers read.
func TestDSNs(t *testing.T) {
	for dsn, want := range map[string]string{
		"mysql2://shop:p@ss:w@db.internal/shop?pool=5": "shop:p@ss:w@tcp(db.internal:3306)/shop", "mysql://shop@db:3307/shop": "shop:@tcp(db:3307)/shop",
		"shop:pass@tcp(db:3306)/shop": "shop:pass@tcp(db:3306)/shop", "root@unix(/run/db.sock)/shop": "root@unix(/run/db.sock)/shop",
	} {
		if got := mysqlDSN(dsn); got != want || !dialects[1].dsn.MatchString(dsn) {
			t.Errorf("%s is %s, want %s", dsn, got, want)
		}
	}
	const waits = "?_txlock=immediate&_pragma=busy_timeout(20000)"
	for dsn, want := range map[string]string{
		"storage/production.sqlite3": "file:storage/production.sqlite3" + waits, "sqlite3:storage/shop.db": "file:storage/shop.db" + waits, "sqlite:///srv/shop.db": "file:/srv/shop.db" + waits,
		"file:/srv/shop.db?_txlock=immediate": "file:/srv/shop.db?_txlock=immediate",
	} {
		if got := sqliteDSN(dsn); got != want || !dialects[2].dsn.MatchString(dsn) {
			t.Errorf("%s is %s, want %s", dsn, got, want)
		}
	}
}

// file writes a configuration file.
func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "troupe.yml")
	harness.OK(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

// A file without handlers and queues is a relay alone: its daemon takes no jobs. Its password is nowhere.
func TestAFileWithAnOutbox(t *testing.T) {
	name := file(t, "outbox: {main: {dsn: {env: DATABASE_URL}, dialect: postgres, poll: 100ms, lease: 5s, keep: 1h, ready: true}}\n")
	s, err := Load(Flags{File: name}, vars(map[string]string{"DATABASE_URL": "postgres://shop:sesame@db.internal:5432/shop?sslmode=disable"}))
	harness.OK(t, err)
	o := s.Outboxes[0]
	if o.Name != "main" || o.Dialect != outbox.Postgres || o.Poll != 100*time.Millisecond || o.Lease != 5*time.Second || o.Keep != time.Hour || !o.Ready {
		t.Errorf("%+v", o)
	}
	if names := s.Capsules[0].Queues.List().Names(); len(names) != 1 || names[0] != relayQueue {
		t.Errorf("takes from %v", names)
	}
	var b strings.Builder
	harness.OK(t, s.Summary(&b))
	if want := "postgres at $DATABASE_URL (db.internal:5432/shop), poll 100ms, lease 5s, keep 1h0m0s, counts for readyz"; !strings.Contains(b.String(), want) || strings.Contains(b.String(), "sesame") {
		t.Errorf("no %q in %s", want, b.String())
	}
	if _, _, err := s.OpenOutbox("other"); err == nil || !strings.Contains(err.Error(), `outbox is "other", expected one of `) {
		t.Errorf("%v", err)
	}
	db, dialect, err := s.OpenOutbox("")
	harness.OK(t, err)
	if harness.OK(t, db.Close()); dialect != outbox.Postgres {
		t.Errorf("dialect %q", dialect)
	}
}

// What is wrong with an outbox is told with its field, and never with what may be a password.
func TestFaultsOfOutboxes(t *testing.T) {
	for text, want := range map[string]string{
		"outbox: here":                     `outbox is "here", expected a map of databases by name`,
		"outbox: {main: }":                 "outbox.main is empty, expected a map with dsn and dialect",
		"outbox: {main: {}}":               "outbox.main.dsn is missing, expected where the database is: {env: VARIABLE} or {file: PATH}",
		"outbox: {main: {dsn: {env: DB}}}": "outbox.main.dialect is missing, expected the language of the database, such as postgres",
		"outbox: {main: {dsn: {env: DB}, dialect: oracle}}":                                            `outbox.main.dialect is "oracle", expected`,
		"outbox: {main: {dsn: shop.db, dialect: sqlite}}":                                              `outbox.main.dialect is "sqlite", expected a dialect whose driver (sqlite) this program has`,
		"outbox: {main: {dsn: {env: NONE}, dialect: postgres}}":                                        `outbox.main.dsn.env is "NONE", expected a variable that is set and not empty`,
		"outbox: {main: {dsn: 'mysql://u:sesame@h/d', dialect: postgres}}":                             "outbox.main.dsn is ***, expected postgres://USER:PASSWORD@HOST/DATABASE",
		"outbox: {'a:b': {dsn: {env: DB}, dialect: postgres}}":                                         `outbox.a:b is named "a:b", expected a name of 1 to 100 letters`,
		"outbox: {main: {dsn: {env: DB}, dialect: postgres, lease: 10ms}}":                             "outbox.main.lease is",
		"outbox: {main: {dsn: {env: DB}, dialect: postgres, pool: 3}}":                                 "outbox.main.pool is no known key, expected poll",
		"redis: {cluster: [\"a:1\"]}\noutbox: {main: {dsn: {env: DB}, dialect: postgres}}":             "outbox.main is given for a Redis Cluster, expected one Redis",
		"handlers: {A: {exec: [cat], env: [DB]}}\noutbox: {main: {dsn: {env: DB}, dialect: postgres}}": `handlers.A.env[0] is "DB", expected a variable that is no secret`,
	} {
		name := file(t, text+"\n")
		_, err := Load(Flags{File: name}, vars(map[string]string{"DB": "host=h password=sesame dbname=d"}))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: no %q in %v", text, want, err)
		}
	}
}
