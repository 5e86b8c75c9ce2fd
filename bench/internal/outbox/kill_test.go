package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/bench/internal/proc"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/outbox"
	"github.com/troupehq/troupe/testkit"
)

// workerEnv has the worker that a process is to be, as JSON.
const workerEnv = "TROUPE_OUTBOX_WORKER"

// worker is a program with a daemon and a relay.
type worker struct {
	Dialect     outbox.Dialect
	Driver, URL string
	Redis       string
}

// run runs the worker until it is killed.
func (w worker) run(ctx context.Context) error {
	db, err := sql.Open(w.Driver, w.URL)
	if err != nil {
		return err
	}
	opts, err := redis.ParseURL(w.Redis)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(opts)
	relay, err := outbox.NewRelay(db, client.New(rdb), outbox.RelayConfig{Dialect: w.Dialect, Lease: time.Second})
	if err != nil {
		return err
	}
	var jobs troupe.Registry
	troupe.Handle(&jobs, func(ctx context.Context, job *troupe.Job[welcome]) error { return w.perform(ctx, db, job) }, troupe.Options{
		Retries: troupe.Times(1000), RetryIn: func(int, error, *troupe.Payload) troupe.Delay { return troupe.Delay(time.Second) },
	})
	return actors.Run(ctx, actors.Config{
		Redis: rdb, Registry: &jobs, Logger: zerolog.Nop(), Lease: 5 * time.Second, Poison: actors.Poison{Recoveries: -1},
		Capsules: []actors.Capsule{{Name: "default", Concurrency: 5, Queues: fetch.Strict{"mail"}}},
		Outboxes: []actors.Outbox{{Relay: relay}},
	})
}

// perform makes an effect in the database, and one elsewhere, whose token it writes down. It fails at times when the effect is there.
func (w worker) perform(ctx context.Context, db *sql.DB, job *troupe.Job[welcome]) error {
	token, err := troupe.Token(ctx, "elsewhere")
	if err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, fmt.Sprintf("INSERT INTO runs (jid, token) VALUES ('%s', '%s')", job.JID, token)); err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	first, err := outbox.Once(ctx, tx, w.Dialect, "effect")
	if err != nil {
		return err
	}
	if first {
		if _, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO effects (jid) VALUES ('%s')", job.JID)); err != nil {
			return err
		}
		if err := tx.Commit(); err != nil {
			return err
		}
	}
	time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond) // the time in which a kill makes the job run again
	if rand.IntN(20) == 0 {
		return errors.New("after the effect")
	}
	return nil
}

// Programs with relays and workers die by kill -9 while rows are written, and jobs fail when their effects are made: the effect of each committed
// job is there once, and each of its runs has the same token.
func TestEffectsAreThereOnceUnderKill9(t *testing.T) {
	each(t, func(t *testing.T, b *box) { t.Parallel(); effectsAreThereOnceUnderKill9(t, b) })
}

func effectsAreThereOnceUnderKill9(t *testing.T, b *box) {
	s := testkit.NewServer(t)
	b.exec(t, "CREATE TABLE effects (jid varchar(64))")
	b.exec(t, "CREATE TABLE runs (jid varchar(64), token varchar(64))")
	spec, err := json.Marshal(worker{Dialect: b.dialect.name, Driver: b.driver, URL: b.url, Redis: s.URL(0)})
	must(t, err)
	start := func() *proc.Process {
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0])
		cmd.Env = append(os.Environ(), workerEnv+"="+string(spec))
		p, err := proc.Start(cmd, t.TempDir(), "worker")
		must(t, err)
		t.Cleanup(p.Kill)
		return p
	}
	workers := []*proc.Process{start(), start(), start()}
	committed := map[string]bool{}
	kills := 0
	for next := time.Now(); kills < 12; {
		tx, err := b.db.BeginTx(t.Context(), nil)
		must(t, err)
		jid, err := b.Push(t.Context(), tx, welcome{1})
		must(t, err)
		if rand.IntN(5) == 0 {
			must(t, tx.Rollback())
		} else {
			must(t, tx.Commit())
			committed[jid] = true
		}
		time.Sleep(8 * time.Millisecond) // about what the workers can do
		if time.Since(next) > 0 {
			next = time.Now().Add(time.Duration(rand.IntN(800)) * time.Millisecond)
			i := rand.IntN(len(workers))
			if err := workers[i].Ended(); err != nil {
				t.Fatal(err)
			}
			workers[i].Kill()
			workers[i] = start()
			kills++
		}
	}
	testkit.Await(t, "all jobs are done", func() bool {
		return b.count(t, "effects") >= len(committed) && b.count(t, "troupe_outbox") == 0 && left(t, s.Client) == 0
	})
	if n := b.count(t, "effects"); n != len(committed) {
		t.Errorf("%d effects of %d jobs", n, len(committed))
	}
	rows, err := b.db.QueryContext(t.Context(), "SELECT e.jid, (SELECT count(*) FROM runs WHERE runs.jid = e.jid), (SELECT count(DISTINCT token) FROM runs WHERE runs.jid = e.jid) FROM effects e")
	must(t, err)
	defer func() { _ = rows.Close() }()
	again := 0
	for rows.Next() {
		var jid string
		var runs, tokens int
		must(t, rows.Scan(&jid, &runs, &tokens))
		if !committed[jid] {
			t.Errorf("the effect of %s is there twice, or its transaction was rolled back", jid)
		}
		delete(committed, jid)
		if tokens != 1 {
			t.Errorf("%d runs of %s have %d tokens", runs, jid, tokens)
		}
		if runs > 1 {
			again++
		}
	}
	must(t, rows.Err())
	if len(committed) > 0 || again == 0 {
		t.Errorf("%d jobs without an effect; %d jobs ran again", len(committed), again)
	}
	t.Logf("%d kills, %d jobs ran again", kills, again)
}

// left is how many jobs wait, run or are to run again.
func left(t *testing.T, rdb *redis.Client) (n int64) {
	t.Helper()
	for _, err := range inspect.New(rdb).Claims(t.Context()) {
		must(t, err)
		n++
	}
	for _, set := range []string{"retry", "schedule", "dead"} {
		n += rdb.ZCard(t.Context(), set).Val()
	}
	return n + rdb.LLen(t.Context(), "queue:mail").Val()
}

// beWorker is what a process does that is to be a worker.
func beWorker(spec string) int {
	var w worker
	if err := json.Unmarshal([]byte(spec), &w); err != nil {
		log.Println(err)
		return 1
	}
	if err := w.run(context.Background()); err != nil {
		log.Println(err)
		return 1
	}
	return 0
}
