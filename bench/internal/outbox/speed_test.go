package outbox

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/outbox"
	"github.com/troupehq/troupe/testkit"
)

// speedEnv has TestSpeed measure; the figures of docs/outbox.md are its.
const speedEnv = "TROUPE_OUTBOX_SPEED"

type riverArgs struct {
	UserID int `json:"user_id"`
}

func (riverArgs) Kind() string { return "welcome" }

// TestSpeed measures what an outbox costs and how fast it is. Without the variable it does each once, small, to see that it works.
func TestSpeed(t *testing.T) {
	rounds, during, rows, commits := 3, 50*time.Millisecond, 2000, 10
	if os.Getenv(speedEnv) != "" {
		rounds, during, rows, commits = 15, time.Second, 100_000, 250
	}
	t.Run("inserts", func(t *testing.T) { insertsBesideRiver(t, rounds, during) })
	t.Run("relay", func(t *testing.T) { each(t, func(t *testing.T, b *box) { relayed(t, b, rows) }) })
	t.Run("start", func(t *testing.T) { each(t, func(t *testing.T, b *box) { commitToStart(t, b, commits) }) })
}

// insertsBesideRiver has four writers commit transactions of one row and its jobs, by turns with an outbox, with River and without jobs, on the
// same PostgreSQL by the same driver.
func insertsBesideRiver(t *testing.T, rounds int, during time.Duration) {
	b := newBox(t, dialects[0])
	ctx := t.Context()
	pool, err := pgxpool.New(ctx, b.url)
	must(t, err)
	defer pool.Close()
	driver := riverpgxv5.New(pool)
	m, err := rivermigrate.New[pgx.Tx](driver, nil)
	must(t, err)
	_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	must(t, err)
	rc, err := river.NewClient(driver, &river.Config{})
	must(t, err)
	b.exec(t, "CREATE TABLE users (id bigserial PRIMARY KEY, name text)")
	within := func(tx pgx.Tx) outbox.Tx {
		return outbox.ExecFunc(func(ctx context.Context, query string, args ...any) (int64, error) {
			tag, err := tx.Exec(ctx, query, args...)
			return tag.RowsAffected(), err
		})
	}
	many, riverMany := make([]client.Item, 100), make([]river.InsertManyParams, 100)
	for i := range many {
		many[i], riverMany[i] = client.Job(welcome{i}), river.InsertManyParams{Args: riverArgs{i}}
	}
	kinds := []struct {
		name string
		push func(tx pgx.Tx) error
	}{
		{"none", func(pgx.Tx) error { return nil }},
		{"outbox", func(tx pgx.Tx) error { _, err := b.Push(ctx, within(tx), welcome{1}); return err }},
		{"river", func(tx pgx.Tx) error { _, err := rc.InsertTx(ctx, tx, riverArgs{1}, nil); return err }},
		{"outbox, 100 jobs", func(tx pgx.Tx) error { _, err := b.PushMany(ctx, within(tx), many...); return err }},
		{"river, 100 jobs", func(tx pgx.Tx) error { _, err := rc.InsertManyTx(ctx, tx, riverMany); return err }},
		{"river fast, 100 jobs", func(tx pgx.Tx) error { _, err := rc.InsertManyFastTx(ctx, tx, riverMany); return err }},
	}
	rates := map[string][]float64{}
	for range rounds {
		for _, i := range rand.Perm(len(kinds)) {
			kind := kinds[i]
			_, err := pool.Exec(ctx, "TRUNCATE users, troupe_outbox, river_job")
			must(t, err)
			var n atomic.Int64
			var wg sync.WaitGroup
			began := time.Now()
			for range 4 {
				wg.Go(func() {
					for time.Since(began) < during {
						err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
							if _, err := tx.Exec(ctx, "INSERT INTO users (name) VALUES ($1)", "Ada"); err != nil {
								return err
							}
							return kind.push(tx)
						})
						if err != nil {
							t.Error(err)
							return
						}
						n.Add(1)
					}
				})
			}
			wg.Wait()
			rates[kind.name] = append(rates[kind.name], float64(n.Load())/time.Since(began).Seconds())
		}
	}
	for _, kind := range kinds {
		t.Logf("%-22s %7.0f transactions a second", kind.name, median(rates[kind.name]))
	}
	for _, pair := range [][2]string{{"outbox", "none"}, {"river", "none"}, {"outbox", "river"}, {"outbox, 100 jobs", "river, 100 jobs"}, {"outbox, 100 jobs", "river fast, 100 jobs"}} {
		var ratios []float64
		for i := range rounds {
			ratios = append(ratios, rates[pair[0]][i]/rates[pair[1]][i])
		}
		t.Logf("%-22s / %-22s %.2f", pair[0], pair[1], median(ratios))
	}
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}

// relayed measures how many rows that wait a relay brings to Redis in a second.
func relayed(t *testing.T, b *box, rows int) {
	var rates []float64
	for range 3 {
		b.rdb.FlushDB(t.Context())
		tx, err := b.db.BeginTx(t.Context(), nil)
		must(t, err)
		items := make([]client.Item, rows)
		for i := range items {
			items[i] = client.Job(welcome{i})
		}
		_, err = b.PushMany(t.Context(), tx, items...)
		must(t, err)
		must(t, tx.Commit())
		b.exec(t, "UPDATE troupe_outbox_state SET until = 0") // another relay works in each run
		r := b.relay(t, b.rdb, 0)
		began, total := time.Now(), 0
		for total < rows {
			n, err := r.Once(t.Context())
			must(t, err)
			total += n
		}
		rates = append(rates, float64(rows)/time.Since(began).Seconds())
		if n := b.rdb.LLen(t.Context(), "queue:mail").Val(); n != int64(rows) {
			t.Fatalf("%d jobs of %d", n, rows)
		}
	}
	t.Logf("%s: %.0f rows a second, the median of 3 runs of %d rows", b.dialect.name, median(rates), rows)
}

// commitToStart measures the time from a commit to the start of its job, with a daemon that has the relay and does nothing else.
func commitToStart(t *testing.T, b *box, commits int) {
	started := make(chan time.Time, 1)
	var jobs troupe.Registry
	troupe.Handle(&jobs, func(context.Context, *troupe.Job[welcome]) error { started <- time.Now(); return nil })
	for _, poll := range []time.Duration{50 * time.Millisecond, 10 * time.Millisecond} {
		relay, err := outbox.NewRelay(b.db, client.New(b.rdb), outbox.RelayConfig{Dialect: b.dialect.name, Poll: poll})
		must(t, err)
		k := testkit.Start(t, actors.Config{
			Redis: b.rdb, Registry: &jobs, Logger: zerolog.Nop(), Outboxes: []actors.Outbox{{Relay: relay}},
			Capsules: []actors.Capsule{{Name: "default", Concurrency: 5, Queues: fetch.Strict{"mail"}}},
		})
		var took []float64
		for range commits {
			time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond) // a time that has nothing to do with the polls
			tx, err := b.db.BeginTx(t.Context(), nil)
			must(t, err)
			_, err = b.Push(t.Context(), tx, welcome{1})
			must(t, err)
			must(t, tx.Commit())
			committed := time.Now()
			took = append(took, (<-started).Sub(committed).Seconds()*1e3)
		}
		k.Stop()
		slices.Sort(took)
		t.Logf("%s, poll %s: from commit to start p50 %.1f ms, p99 %.1f ms, of %d", b.dialect.name, poll, took[len(took)/2], took[len(took)*99/100], len(took))
	}
}
