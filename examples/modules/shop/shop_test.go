package shop

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/outbox"
	"github.com/troupehq/troupe/testkit"
)

// carrier is a Carrier that notes the keys.
type carrier struct{ keys chan string }

func (c carrier) Fetch(_ context.Context, key string, _ int64) error {
	c.keys <- key
	return nil
}

// newShop returns a shop with two lamps, in a database and a Redis of the test.
func newShop(t *testing.T) (*Shop, *testkit.Server) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "shop.db")+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := outbox.Migrate(t.Context(), db, outbox.SQLite); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{
		"CREATE TABLE orders (id integer PRIMARY KEY, item text NOT NULL)",
		"CREATE TABLE stock (item text PRIMARY KEY, number integer NOT NULL, reserved integer NOT NULL DEFAULT 0, CHECK (reserved <= number))",
		"INSERT INTO stock (item, number) VALUES ('lamp', 2)",
	} {
		if _, err := db.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	redis := testkit.NewMemory(t)
	return &Shop{DB: db, Dialect: outbox.SQLite, Outbox: outbox.New(client.New(redis.Client), outbox.SQLite), Carrier: carrier{make(chan string, 10)}}, redis
}

func (s *Shop) lamps(t *testing.T) (n int) {
	t.Helper()
	if err := s.DB.QueryRowContext(t.Context(), "SELECT number FROM stock WHERE item = 'lamp'").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// An order that is committed has a job, and one that is rolled back has none. No Redis and no relay is needed to see it.
func TestAnOrderHasAJob(t *testing.T) {
	s, _ := newShop(t)
	for range 2 {
		id, err := s.Order(t.Context(), "lamp")
		if err != nil {
			t.Fatal(err)
		}
		testkit.RequireOutboxed(t, s.DB, func(ship Ship) bool { return ship.Order == id })
	}
	if _, err := s.Order(t.Context(), "lamp"); err == nil {
		t.Error("a third lamp was sold")
	}
	var rows int
	if err := s.DB.QueryRowContext(t.Context(), "SELECT count(*) FROM troupe_outbox").Scan(&rows); err != nil || rows != 2 {
		t.Errorf("%d jobs, %v", rows, err)
	}
}

// A job that runs twice takes one lamp, and asks the carrier with one key.
func TestAnOrderIsSentOnce(t *testing.T) {
	s, _ := newShop(t)
	for range 2 {
		if err := testkit.Perform(t, t.Context(), s.Ship, Ship{Order: 1, Item: "lamp"}, client.JID("j1")); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.lamps(t); n != 1 {
		t.Errorf("%d lamps are left, want 1", n)
	}
	if keys := s.Carrier.(carrier).keys; <-keys != <-keys {
		t.Error("the carrier was asked with two keys")
	}
}

// The whole way: the order, the relay, a run that fails when all is done, and the next.
func TestTheWholeWay(t *testing.T) {
	s, redis := newShop(t)
	if _, err := s.Order(t.Context(), "lamp"); err != nil {
		t.Fatal(err)
	}
	relay, err := outbox.NewRelay(s.DB, client.New(redis.Client), outbox.RelayConfig{Dialect: s.Dialect})
	if err != nil {
		t.Fatal(err)
	}
	var jobs troupe.Registry
	done := make(chan struct{})
	troupe.Handle(&jobs, func(ctx context.Context, job *troupe.Job[Ship]) error {
		err := s.Ship(ctx, job)
		if err == nil && job.Attempt == 1 {
			err = errors.New("fails when all is done")
		} else {
			close(done)
		}
		return err
	}, troupe.Options{RetryIn: func(int, error, *troupe.Payload) troupe.Delay { return troupe.Delay(10 * time.Millisecond) }})
	testkit.Start(t, actors.Config{Redis: redis.Client, Registry: &jobs, Outboxes: []actors.Outbox{{Relay: relay}}})
	<-done
	if n := s.lamps(t); n != 1 {
		t.Errorf("%d lamps are left, want 1", n)
	}
}
