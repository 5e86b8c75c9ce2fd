package outbox

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/outbox"
	"github.com/troupehq/troupe/testkit"
)

// troupeBinary is the command, built once.
var troupeBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "troupe-outbox-door-")
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "troupe")
	cmd := exec.Command("go", "build", "-o", name, "./cmd/troupe")
	cmd.Dir, cmd.Env = filepath.Join("..", "..", ".."), append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return name, nil
})

// door is a database of PostgreSQL whose outbox is brought to a Redis by daemons from a file. Their user has the documented rights alone.
type door struct {
	*box
	binary, file, ops string
	server            *testkit.Server
	env               []string
}

func newDoor(t *testing.T, more string) *door {
	t.Helper()
	d := &door{box: newBox(t, dialects[0]), server: testkit.NewServer(t, "--appendonly", "yes")}
	var err error
	d.binary, err = troupeBinary()
	must(t, err)
	d.rdb = d.server.Client
	d.Outbox = outbox.New(client.New(d.rdb), outbox.Postgres)
	role := "relay" + strings.TrimPrefix(regexp.MustCompile(`dbname=\w+`).FindString(d.url), "dbname=bench")
	manual, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "outbox.md"))
	must(t, err)
	d.exec(t, "CREATE ROLE "+role+" LOGIN")
	grants := regexp.MustCompile(`(?m)^GRANT .* TO relay;$`).FindAllString(string(manual), -1)
	if len(grants) != 4 {
		t.Fatalf("the manual has the rights %q", grants)
	}
	for _, grant := range grants {
		d.exec(t, strings.Replace(grant, "TO relay;", "TO "+role, 1))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	d.ops = listener.Addr().String()
	must(t, listener.Close())
	d.file = filepath.Join(t.TempDir(), "troupe.yml")
	must(t, os.WriteFile(d.file, fmt.Appendf(nil, "redis: %s\noutbox: {main: {dsn: {env: DATABASE_URL}, dialect: postgres, lease: 1s%s}}\n", d.server.URL(0), more), 0o600))
	d.env = append(os.Environ(), "DATABASE_URL="+strings.Replace(d.url, "user=bench", "user="+role, 1))
	return d
}

// daemon is one that runs.
type daemon struct {
	*exec.Cmd
	log harness.Buffer
}

func (p *daemon) said(text string) int { return p.log.Count(text) }

func (d *door) run(t *testing.T, flags ...string) *daemon {
	t.Helper()
	p := &daemon{Cmd: exec.CommandContext(t.Context(), d.binary, append([]string{"run", "-C", d.file}, flags...)...)}
	p.Env, p.Stderr, p.Stdout = d.env, &p.log, &p.log
	must(t, p.Start())
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("the log of %d:\n%s", p.Process.Pid, p.log.String())
		}
	})
	return p
}

func (p *daemon) kill() {
	_ = p.Process.Kill()
	_ = p.Wait()
}

// command runs a command with the file.
func (d *door) command(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), d.binary, append(args, "-C", d.file)...)
	cmd.Env = d.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("troupe %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// unlock has a relay take over at once from one that was killed, so that kills need not wait for the lease.
func (d *door) unlock(ctx context.Context) {
	_, _ = d.db.ExecContext(ctx, "UPDATE troupe_outbox_state SET until = 0")
}

// account is what writers know of their jobs.
type account struct {
	mu                 sync.Mutex
	committed, unknown map[string]bool
}

// write commits and rolls back jobs, until ctx ends.
func (d *door) write(ctx context.Context, a *account) {
	for i := 0; ctx.Err() == nil; i++ {
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond) // an app has other things to do
		tx, err := d.db.BeginTx(context.Background(), nil)
		if err != nil {
			continue
		}
		var jids []string
		for range 1 + rand.IntN(20) {
			jid, err := d.Push(context.Background(), tx, welcome{i}, client.Queue(fmt.Sprintf("q%d", rand.IntN(2))))
			if err == nil {
				jids = append(jids, jid)
			}
		}
		if rand.IntN(4) == 0 {
			_ = tx.Rollback()
			continue
		}
		err = tx.Commit()
		a.mu.Lock()
		for _, jid := range jids {
			if err == nil {
				a.committed[jid] = true
			} else {
				a.unknown[jid] = true
			}
		}
		a.mu.Unlock()
	}
}

// check compares what is in Redis with the account.
func (d *door) check(t *testing.T, a *account) {
	t.Helper()
	testkit.Await(t, "all rows are relayed", func() bool { return d.count(t, "troupe_outbox WHERE done IS NULL") == 0 })
	seen := map[string]int{}
	for _, queue := range []string{"q0", "q1"} {
		for _, p := range d.jobs(t, queue) {
			seen[p.JID()]++
		}
	}
	lost, doubled, foreign := 0, 0, 0
	for jid := range a.committed {
		if seen[jid] == 0 {
			lost++
		}
	}
	for jid, n := range seen {
		if n > 1 {
			doubled++
		}
		if !a.committed[jid] && !a.unknown[jid] {
			foreign++
		}
	}
	if lost+doubled+foreign > 0 || len(seen) < 100 {
		t.Errorf("of %d committed jobs %d were lost and %d are there twice; %d of transactions that were rolled back", len(a.committed), lost, doubled, foreign)
	}
	t.Logf("%d committed, %d unknown, %d bad", len(a.committed), len(a.unknown), d.count(t, "troupe_outbox_bad"))
}

// Two daemons relay from a file and are killed a hundred times at random moments, while their database and their Redis are killed,
// too, rows are no jobs, and the clock of the database jumps. Each committed job is pushed once, and none of a transaction that was rolled back.
func TestDaemonsAreKilled(t *testing.T) {
	d := newDoor(t, "")
	a := &account{committed: map[string]bool{}, unknown: map[string]bool{}}
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for range 3 {
		writers.Go(func() { d.write(ctx, a) })
	}
	daemons := []*daemon{d.run(t), d.run(t)}
	leading := func() bool { return daemons[0].said("brings the rows")+daemons[1].said("brings the rows") > 0 }
	testkit.Await(t, "one leads", leading)
	const kills = 100
	bad := 0
	for n := range kills {
		switch n % 20 {
		case 5:
			d.server.Kill()
			time.Sleep(100 * time.Millisecond) // Redis is away for a while
			d.server.Restart()
		case 10:
			must(t, pg.Restart(t.Context()))
		case 15:
			if _, err := d.db.ExecContext(t.Context(), "INSERT INTO troupe_outbox (payload) VALUES ('no job')"); err == nil {
				bad++
			}
		case 18: // as the lease is seen when the clock of the database has jumped to and fro
			_, _ = d.db.ExecContext(t.Context(), "UPDATE troupe_outbox_state SET until = until + 3600 * (1 - 2 * (random() < 0.5)::int)")
		}
		i := n % 2
		if n%4 == 3 { // both
			daemons[1-i].kill()
			daemons[1-i] = d.run(t)
		}
		daemons[i].kill()
		d.unlock(t.Context())
		daemons[i] = d.run(t)
		time.Sleep(time.Duration(rand.IntN(600)) * time.Millisecond) // the moment of the next kill
	}
	stop()
	writers.Wait()
	d.unlock(t.Context())
	d.check(t, a)
	testkit.Await(t, "what is no job is put where it belongs", func() bool { return d.count(t, "troupe_outbox_bad") == bad })
}

// What is wrong is a state of the relay: the tree, /readyz, the log and the commands tell it, and the process goes on.
func TestTroubleAtTheDoor(t *testing.T) {
	d := newDoor(t, ", ready: true")
	p := d.run(t, "--ops", d.ops)
	pushed := 0
	push := func() {
		t.Helper()
		_, err := d.Push(t.Context(), d.db, welcome{pushed})
		must(t, err)
		pushed++
	}
	arrived := func() bool { return len(d.jobs(t, "mail")) == pushed }
	push()
	testkit.Await(t, "it is pushed", arrived)
	ready := func(want int, text string) func() bool {
		return func() bool {
			reply, err := http.Get("http://" + d.ops + "/readyz") //nolint:noctx // a probe
			if err != nil {
				return false
			}
			defer func() { _ = reply.Body.Close() }()
			var b bytes.Buffer
			_, _ = b.ReadFrom(reply.Body)
			return reply.StatusCode == want && strings.Contains(b.String(), text)
		}
	}
	trouble := func(name, do, undo, line, text string) {
		t.Run(name, func(t *testing.T) {
			testkit.Await(t, "it is ready", ready(http.StatusOK, ""))
			before := p.said(line)
			d.exec(t, do)
			testkit.Await(t, "it is not ready", ready(http.StatusServiceUnavailable, text))
			if n := p.said(line) - before; n != 1 {
				t.Errorf("%d lines in the log, want one", n)
			}
			testkit.Await(t, "the tree tells it", func() bool { return strings.Contains(d.command(t, "tree"), text) })
			d.exec(t, undo)
			push()
			testkit.Await(t, "it is pushed when that is over", arrived)
		})
	}
	role := regexp.MustCompile(`user=(relay\w*)`).FindStringSubmatch(d.env[len(d.env)-1])[1]
	trouble("no database", "ALTER ROLE "+role+" NOLOGIN; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '"+role+"'", "ALTER ROLE "+role+" LOGIN", "the database of the outbox is away", "no database: ")
	trouble("a user that may only read", "REVOKE UPDATE ON troupe_outbox_state FROM "+role, "GRANT UPDATE ON troupe_outbox_state TO "+role, "the database of the outbox is away", "permission denied")
	trouble("tables of another version", "UPDATE troupe_outbox_state SET version = 9", "UPDATE troupe_outbox_state SET version = 1", "not those of this version", "of version 9, expected 1")
	trouble("no tables", "ALTER TABLE troupe_outbox_state RENAME TO hidden", "ALTER TABLE hidden RENAME TO troupe_outbox_state", "not those of this version", "the tables are not there")

	d.exec(t, "INSERT INTO troupe_outbox (queue, payload) VALUES ('mail', '{\"args\":[]}')")
	testkit.Await(t, "the log tells of a row that can be no job", func() bool { return p.said("can be no jobs") == 1 })
	var s outbox.Status
	must(t, json.Unmarshal([]byte(d.command(t, "outbox", "status", "--json")), &s))
	if !s.Led || s.Waiting != 0 || s.Refused != 1 || len(s.Last) != 1 || !strings.Contains(s.Last[0].Reason, "class") {
		t.Errorf("%+v", s)
	}
	if text := d.command(t, "outbox", "status"); !strings.Contains(text, "waiting 0 rows, kept 0 rows, refused 1 row; a relay works") {
		t.Errorf("%s", text)
	}
	d.server.Kill()
	push()
	testkit.Await(t, "Redis is away", func() bool { return p.said("Redis takes no jobs of the outbox") == 1 })
	d.server.Restart()
	testkit.Await(t, "it is pushed", arrived)
	if p.ProcessState != nil {
		t.Error("the daemon has ended")
	}
	// at a stop the place is free at once
	must(t, p.Process.Signal(os.Interrupt))
	testkit.Await(t, "the lease is given back", func() bool { return d.count(t, "troupe_outbox_state WHERE until = 0") == 1 })
}

var waitingRows = flag.Int("outbox.rows", 100_000, "rows that wait in TestTheOtherDaemonTakesOver")

// A relay takes over from one that was killed within the lease, with a hundred thousand rows waiting.
func TestTheOtherDaemonTakesOver(t *testing.T) {
	d := newDoor(t, "")
	rows := *waitingRows
	d.exec(t, fmt.Sprintf(`INSERT INTO troupe_outbox (queue, payload) SELECT 'q' || n %% 2, json_build_object('class', 'A', 'args', ARRAY[n], 'jid', lpad(n::text, 24, '0')) FROM generate_series(1, %d) n`, rows))
	daemons := []*daemon{d.run(t), d.run(t)}
	began := time.Now()
	testkit.Await(t, "some are pushed", func() bool { return d.count(t, "troupe_outbox") < rows*9/10 })
	leader := 0
	if daemons[1].said("brings the rows") > 0 {
		leader = 1
	}
	daemons[leader].kill()
	killed := time.Now()
	testkit.Await(t, "the other one leads", func() bool { return daemons[1-leader].said("brings the rows") > 0 })
	took := time.Since(killed)
	for left := rows; left > 0; {
		testkit.Await(t, "more are pushed", func() bool {
			was := left
			left = d.count(t, "troupe_outbox")
			return left < was || left == 0
		})
	}
	t.Logf("taken over after %s, all pushed after %s", took.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	seen := map[string]bool{}
	for _, queue := range []string{"q0", "q1"} {
		for _, p := range d.jobs(t, queue) {
			if seen[p.JID()] {
				t.Fatalf("%s is there twice", p.JID())
			}
			seen[p.JID()] = true
		}
	}
	if len(seen) != rows {
		t.Errorf("%d jobs", len(seen))
	}
}

// Redis loses all its data: what is kept is replayed by the command, and is there once.
func TestAReplayAtTheDoor(t *testing.T) {
	d := newDoor(t, ", keep: 1h")
	d.run(t)
	before := time.Now()
	var jids []string
	push := func(n int) {
		for i := range n {
			jid, err := d.Push(t.Context(), d.db, welcome{i})
			must(t, err)
			jids = append(jids, jid)
		}
	}
	push(2500)
	testkit.Await(t, "all are pushed", func() bool { return len(d.jobs(t, "mail")) == len(jids) })
	push(50) // some are on their way while Redis loses its data
	must(t, d.rdb.FlushAll(t.Context()).Err())
	push(50)
	testkit.Await(t, "all are pushed and noted", func() bool { return d.count(t, "troupe_outbox WHERE done IS NULL") == 0 })
	lost := map[string]bool{}
	for _, jid := range jids {
		lost[jid] = true
	}
	for _, p := range d.jobs(t, "mail") {
		delete(lost, p.JID())
	}
	must(t, d.rdb.FlushAll(t.Context()).Err()) // and again: nothing is left
	text := d.command(t, "outbox", "replay", "--since", before.UTC().Format(time.RFC3339))
	if !strings.Contains(text, "2,600 rows will be pushed again") {
		t.Error(text)
	}
	testkit.Await(t, "all are there", func() bool { return len(d.jobs(t, "mail")) == len(jids) })
	seen := map[string]int{}
	for _, p := range d.jobs(t, "mail") {
		seen[p.JID()]++
	}
	for _, jid := range jids {
		if seen[jid] != 1 {
			t.Errorf("%s is there %d times", jid, seen[jid])
		}
	}
	t.Logf("%d jobs, of which Redis had lost %d at the first time", len(jids), len(lost))
}

// A daemon from a file relays each database, and its commands look at it.
func TestEachDatabaseAtTheDoor(t *testing.T) {
	each(t, func(t *testing.T, b *box) {
		binary, err := troupeBinary()
		must(t, err)
		d := &door{box: b, binary: binary, server: testkit.NewServer(t), file: filepath.Join(t.TempDir(), "troupe.yml")}
		d.rdb = d.server.Client
		must(t, os.WriteFile(d.file, fmt.Appendf(nil, "redis: %s\noutbox: {main: {dsn: {env: DATABASE_URL}, dialect: %s, keep: 1h}}\n", d.server.URL(0), b.name), 0o600))
		url := b.url
		if b.name == outbox.SQLite { // as an app says it
			url, _, _ = strings.Cut(strings.TrimPrefix(url, "file:"), "?")
		}
		d.env = append(os.Environ(), "DATABASE_URL="+url)
		p := d.run(t)
		for i := range 50 {
			tx, err := b.db.BeginTx(t.Context(), nil)
			must(t, err)
			_, err = b.Push(t.Context(), tx, welcome{i})
			must(t, err)
			if i%5 == 0 {
				must(t, tx.Rollback())
			} else {
				must(t, tx.Commit())
			}
		}
		d.exec(t, "INSERT INTO troupe_outbox (payload) VALUES ('no job')")
		testkit.Await(t, "what is committed is pushed", func() bool { return len(d.jobs(t, "mail")) == 40 && p.said("can be no jobs") == 1 })
		var s outbox.Status
		must(t, json.Unmarshal([]byte(d.command(t, "outbox", "status", "--json")), &s))
		if !s.Led || s.Waiting != 0 || s.Kept != 40 || s.Refused != 1 {
			t.Errorf("%+v", s)
		}
		must(t, d.rdb.FlushAll(t.Context()).Err())
		if text := d.command(t, "outbox", "replay", "--since", "1h"); text != "40 rows will be pushed again\n" {
			t.Error(text)
		}
		testkit.Await(t, "it is pushed again", func() bool { return len(d.jobs(t, "mail")) == 40 })
		if got := d.command(t, "outbox", "schema", "--apply"); got != "the tables are there\n" {
			t.Error(got)
		}
	})
}

// The tables are printed and made by the command.
func TestTheSchemaAtTheDoor(t *testing.T) {
	d := newDoor(t, "")
	text, err := outbox.Schema(outbox.Postgres)
	must(t, err)
	if got := d.command(t, "outbox", "schema"); got != text {
		t.Errorf("%s", got)
	}
	d.env[len(d.env)-1] = "DATABASE_URL=" + d.url // its owner
	d.exec(t, "DROP TABLE troupe_outbox, troupe_outbox_state, troupe_outbox_bad")
	if got := d.command(t, "outbox", "schema", "main", "--apply"); got != "the tables are there\n" {
		t.Errorf("%s", got)
	}
	if n := d.count(t, "troupe_outbox_state"); n != 1 {
		t.Errorf("%d rows", n)
	}
}
