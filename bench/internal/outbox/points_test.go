package outbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/outbox"
)

// cut ends all that a relay does at one of its steps, before or after that is carried out: so a process dies.
type cut struct {
	at, steps int // from 1
	after     bool
}

var errCut = errors.New("the process has died")

func (c *cut) step(do func() error) error {
	c.steps++
	if c.steps > c.at || c.steps == c.at && !c.after {
		return errCut
	}
	if err := do(); c.steps < c.at {
		return err
	}
	return errCut
}

// cutDB makes the connections of one relay.
type cutDB struct {
	*cut
	of  driver.Driver
	url string
}

func (d cutDB) Driver() driver.Driver { return d.of }

func (d cutDB) Connect(context.Context) (driver.Conn, error) {
	conn, err := d.of.Open(d.url)
	return cutConn{conn, d.cut}, err
}

type cutConn struct {
	driver.Conn
	*cut
}

func (c cutConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (result driver.Result, err error) {
	err = c.step(func() (err error) {
		result, err = c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
		return err
	})
	return result, err
}

func (c cutConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (rows driver.Rows, err error) {
	err = c.step(func() (err error) {
		rows, err = c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
		return err
	})
	if err != nil && rows != nil {
		_ = rows.Close()
	}
	return rows, err
}

func (c cutConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
	return cutTx{tx, c.cut}, err
}

// cutTx is rolled back when its process has died, as a database does.
type cutTx struct {
	driver.Tx
	*cut
}

func (t cutTx) Commit() error {
	err := t.step(t.Tx.Commit)
	if errors.Is(err, errCut) {
		_ = t.Rollback()
	}
	return err
}

func (c *cut) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *cut) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (c *cut) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := c.step(func() error { return next(ctx, cmd) })
		cmd.SetErr(err)
		return err
	}
}

// A relay dies at each of its steps, before it and after it, and another one goes on: each job is pushed once, in order.
func TestARelayDiesAtEachStep(t *testing.T) { each(t, aRelayDiesAtEachStep) }

func aRelayDiesAtEachStep(t *testing.T, b *box) {
	url := b.url
	if b.dialect.name == outbox.MySQL {
		url += "?interpolateParams=true" // one step for each statement
	}
	deaths, pushed := 0, 0
	for _, keep := range []bool{false, true} {
		for at, alive := 1, false; !alive; at++ {
			for _, after := range []bool{false, true} {
				for i := range 3 {
					_, err := b.Push(t.Context(), b.db, welcome{pushed + i})
					must(t, err)
				}
				b.exec(t, "INSERT INTO troupe_outbox (payload) VALUES ('no job')")
				b.exec(t, "UPDATE troupe_outbox_state SET until = 0") // as if the one before had ended
				c := &cut{at: at, after: after}
				db := sql.OpenDB(cutDB{c, b.db.Driver(), url})
				rdb := redis.NewClient(b.rdb.Options())
				_ = rdb.Ping(t.Context()) // its connection is no step
				rdb.AddHook(c)
				cfg := outbox.RelayConfig{Dialect: b.dialect.name}
				if keep {
					cfg.Keep = 1
				}
				r, err := outbox.NewRelay(db, client.New(rdb), cfg)
				must(t, err)
				n, err := r.Once(t.Context())
				switch {
				case err == nil && n == 4:
					alive = true
				case errors.Is(err, errCut):
					deaths++
				default:
					t.Fatalf("step %d: %d, %v", at, n, err)
				}
				must(t, rdb.Close())
				must(t, db.Close())
				b.exec(t, "UPDATE troupe_outbox_state SET until = 0") // its lease has ended
				pushed += 3
				next := b.relay(t, b.rdb, 0)
				for more := 1; more > 0; {
					more, err = next.Once(t.Context())
					must(t, err)
				}
				all := b.jobs(t, "mail")
				if len(all) != pushed || b.count(t, "troupe_outbox_bad") != pushed/3 || b.count(t, "troupe_outbox WHERE done IS NULL") != 0 {
					t.Fatalf("dead at step %d, after %t: %d jobs of %d, %d rows put aside of %d", at, after, len(all), pushed, b.count(t, "troupe_outbox_bad"), pushed/3)
				}
				for i, p := range all[pushed-3:] {
					if want := fmt.Sprintf("[%d]", pushed-3+i); string(p.Args()) != want {
						t.Fatalf("dead at step %d, after %t: job %s, want %s", at, after, p.Args(), want)
					}
				}
			}
		}
	}
	if deaths < 40 {
		t.Errorf("only %d deaths", deaths)
	}
	t.Logf("%d deaths, %d jobs", deaths, pushed)
}
