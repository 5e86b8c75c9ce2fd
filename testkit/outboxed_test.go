package testkit_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

func init() { sql.Register("outboxed", outboxed{}) }

// outboxed is a fake of a database whose outbox has these rows; there is none in a database of another name than "".
type outboxed struct{}

var outboxedRows = [][]driver.Value{
	{"", nil, []byte(`{"class":"Greeting","args":[{"Name":"Ada"}],"queue":"low"}`)},
	{"mail", 2e9 + 0.5, `{"class":"Greeting","args":[{"Name":"Bea"}]}`},
	{"mail", nil, `{"class":"Other","args":[]}`},
}

func (outboxed) Open(name string) (driver.Conn, error) {
	if name != "" {
		return nil, errors.New("no tables")
	}
	return outboxed{}, nil
}
func (outboxed) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (outboxed) Begin() (driver.Tx, error)           { return nil, errors.ErrUnsupported }
func (outboxed) Close() error                        { return nil }
func (outboxed) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return &outboxedRead{}, nil
}

type outboxedRead struct{ read int }

func (*outboxedRead) Columns() []string { return []string{"queue", "at", "payload"} }
func (*outboxedRead) Close() error      { return nil }
func (r *outboxedRead) Next(dest []driver.Value) error {
	if r.read == len(outboxedRows) {
		return io.EOF
	}
	copy(dest, outboxedRows[r.read])
	r.read++
	return nil
}

func TestRequireOutboxed(t *testing.T) {
	open := func(name string) *sql.DB {
		db := harness.Must(sql.Open("outboxed", name))(t)
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	db := open("")
	named := func(name string) func(Greeting) bool { return func(g Greeting) bool { return g.Name == name } }
	if ada := testkit.RequireOutboxed(t, db, named("Ada")); ada.Queue != "low" || !ada.At.IsZero() {
		t.Errorf("%+v", ada)
	}
	if bea := testkit.RequireOutboxed(t, db, named("Bea")); bea.Queue != "mail" || !bea.At.Equal(time.UnixMilli(2e12+500)) {
		t.Errorf("%+v", bea)
	}
	harness.Fails(t, func(tb testing.TB) { testkit.RequireOutboxed(tb, db, named("Cleo")) }, "expected one job of Greeting in the outbox that fits, got 0", "args [{\"Name\":\"Bea\"}] queue mail at", "pushed of Other: 1")
	harness.Fails(t, func(tb testing.TB) { testkit.RequireOutboxed[Greeting](tb, db) }, "got 2")
	harness.Fails(t, func(tb testing.TB) { testkit.RequireOutboxed[Greeting](tb, open("x")) }, "outbox: no tables")
}
