package outbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/outbox"
	"github.com/troupehq/troupe/testkit"
)

// blocks are the texts of a page in one language, in order.
func blocks(t *testing.T, page, language string) (texts []string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", page))
	must(t, err)
	for _, found := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllSubmatch(raw, -1) {
		texts = append(texts, string(found[1]))
	}
	return texts
}

// sqlOf is the one text of SQL of a page whose first line is a comment that begins so.
func sqlOf(t *testing.T, page, comment string) string {
	t.Helper()
	var fits []string
	for _, text := range blocks(t, page, "sql") {
		if strings.HasPrefix(text, "-- "+comment) {
			fits = append(fits, text)
		}
	}
	if len(fits) != 1 {
		t.Fatalf("%s has %d blocks of SQL that begin with -- %s", page, len(fits), comment)
	}
	return fits[0]
}

// carryOut carries out the statements of a text on one connection.
func (b *box) carryOut(t *testing.T, text string) {
	t.Helper()
	conn, err := b.db.Conn(t.Context())
	must(t, err)
	defer func() { _ = conn.Close() }()
	for statement := range strings.SplitAfterSeq(text, ";\n") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// ran starts a worker with a relay and returns what it has run of n jobs: their arguments, in their order.
func (b *box) ran(t *testing.T, n int) []string {
	t.Helper()
	args := make(chan string, 100)
	var jobs troupe.Registry
	troupe.HandleClass(&jobs, "Welcome", troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error {
		args <- string(p.Args())
		return nil
	}))
	relay, err := outbox.NewRelay(b.db, client.New(b.rdb), outbox.RelayConfig{Dialect: b.dialect.name})
	must(t, err)
	k := testkit.Start(t, actors.Config{
		Redis: b.rdb, Registry: &jobs, Logger: zerolog.Nop(), Outboxes: []actors.Outbox{{Relay: relay}},
		Capsules: []actors.Capsule{{Name: "default", Concurrency: 5, Queues: fetch.Strict{"mail"}}},
	})
	k.Await(fmt.Sprintf("%d jobs have run", n), func() bool { return len(args) >= n })
	k.Await("no row is left", func() bool { return b.count(t, "troupe_outbox") == 0 })
	k.Stop()
	var all []string
	for len(args) > 0 {
		all = append(all, <-args)
	}
	slices.Sort(all)
	return all
}

// What the page shows of SQL writes jobs, which a worker runs, and one for later. A row that was put aside goes back as it says, and old
// notes of Once are removed.
func TestSQLOfThePage(t *testing.T) { each(t, sqlOfThePage) }

func sqlOfThePage(t *testing.T, b *box) {
	id := map[outbox.Dialect]string{outbox.Postgres: "bigserial PRIMARY KEY", outbox.MySQL: "bigint AUTO_INCREMENT PRIMARY KEY", outbox.SQLite: "integer PRIMARY KEY"}
	b.exec(t, "CREATE TABLE users (id "+id[b.dialect.name]+", name varchar(100))")
	b.carryOut(t, sqlOf(t, "outbox.md", map[outbox.Dialect]string{outbox.Postgres: "PostgreSQL", outbox.MySQL: "MariaDB", outbox.SQLite: "SQLite"}[b.dialect.name]))
	b.exec(t, `INSERT INTO troupe_outbox_bad (id, queue, payload, reason, since) VALUES (17, 'mail', '{"class":"Welcome","args":[17]}', 'none', 0)`)
	b.carryOut(t, sqlOf(t, "outbox.md", "back"))
	before := time.Now()
	if all := b.ran(t, 2); !slices.Equal(all, []string{"[17]", "[1]"}) {
		t.Errorf("run: %s", all)
	}
	due := testkit.RequireScheduled[welcomed](t, b.rdb)
	if in := due.At.Sub(before); due.Args.UserID != 2 || in < 59*time.Minute || in > 61*time.Minute {
		t.Errorf("%+v is due in %s", due.Args, in)
	}
	if b.count(t, "users") != 1 || b.count(t, "troupe_outbox_bad") != 0 {
		t.Errorf("%d users, %d bad rows", b.count(t, "users"), b.count(t, "troupe_outbox_bad"))
	}
	if b.dialect.name == outbox.Postgres {
		b.exec(t, "INSERT INTO troupe_inbox (token, jid, name, at) VALUES ('a', '', '', 0), ('b', '', '', extract(epoch from now()))")
		b.carryOut(t, sqlOf(t, "once.md", "PostgreSQL"))
		if n := b.count(t, "troupe_inbox"); n != 1 {
			t.Errorf("%d notes", n)
		}
	}
}

type welcomed struct {
	UserID int `arg:"0"`
}

func (welcomed) Class() string { return "Welcome" }

// The programs of the page write a user and a job, which a worker runs.
func TestProgramsOfThePage(t *testing.T) {
	b := newBox(t, dialects[len(dialects)-1])
	path, _, _ := strings.Cut(strings.TrimPrefix(b.url, "file:"), "?")
	b.exec(t, "CREATE TABLE users (id integer PRIMARY KEY, name varchar(100))")
	programs := [][]string{{"ruby", "ruby"}, {"php", "php"}, {"python", "python3"}}
	for _, p := range programs {
		texts := blocks(t, "outbox.md", p[0])
		if len(texts) != 1 {
			t.Fatalf("%d blocks of %s", len(texts), p[0])
		}
		file := filepath.Join(t.TempDir(), "program")
		must(t, os.WriteFile(file, []byte(texts[0]), 0o600))
		cmd := exec.CommandContext(t.Context(), p[1], file)
		cmd.Dir = filepath.Dir(path)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("%s: %v\n%s", p[1], err, out)
		}
	}
	if all := b.ran(t, 3); !slices.Equal(all, []string{"[1]", "[2]", "[3]"}) || b.count(t, "users") != 3 {
		t.Errorf("run: %s of %d users", all, b.count(t, "users"))
	}
}
