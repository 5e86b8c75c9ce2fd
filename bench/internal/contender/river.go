package contender

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/troupehq/troupe/bench/internal/server"
)

// riverPeer is river with the fetch intervals at their minimum, on a PostgreSQL
// without fsync. Its jobs live in a database, which gives it transactions that
// nobody here has.
func riverPeer() Contender {
	return Contender{
		Name: "river", About: "riverqueue/river 0.51 on PostgreSQL without fsync, fetch cooldown 1 ms, poll 2 ms, logs at error",
		Slow: true, Missing: server.PostgresMissing,
		Format: Format{Name: "river", Postgres: true, Fill: fillRiver, Left: leftRiver},
		Serve:  serveRiver,
	}
}

func serveRiver(ctx context.Context, s *Session) error {
	cfg, err := pgxpool.ParseConfig(s.Postgres)
	if err != nil {
		return err
	}
	cfg.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, job *river.Job[Task]) error {
		if job.Args.Fan == 0 {
			return s.Perform(job.Args)
		}
		return fanRiver(ctx, pool, s, job)
	}))
	queues := map[string]river.QueueConfig{}
	for _, q := range s.Work.Queues {
		queues[q.Name] = river.QueueConfig{MaxWorkers: cmp.Or(s.AtOnce, s.Concurrency)}
	}
	c, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues: queues, Workers: workers,
		FetchCooldown: time.Millisecond, FetchPollInterval: 2 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return err
	}
	if err := c.Start(ctx); err != nil {
		return err
	}
	s.Progress.Ready()
	<-ctx.Done()
	return ctx.Err()
}

// fanRiver pushes the children of a job and completes it in one transaction, with one statement for all of them.
func fanRiver(ctx context.Context, pool *pgxpool.Pool, s *Session, job *river.Job[Task]) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	var batch []river.InsertManyParams
	for child := range job.Args.children {
		batch = append(batch, river.InsertManyParams{Args: child})
	}
	if _, err := river.ClientFromContext[pgx.Tx](ctx).InsertManyFastTx(ctx, tx, batch); err != nil {
		return err
	}
	if err := s.Perform(job.Args); err != nil {
		return err
	}
	if _, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

func fillRiver(ctx context.Context, st Store, l Load) error {
	driver := riverpgxv5.New(st.Pool)
	m, err := rivermigrate.New[pgx.Tx](driver, nil)
	if err != nil {
		return err
	}
	if _, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	c, err := river.NewClient(driver, &river.Config{})
	if err != nil {
		return err
	}
	for i, queue := range l.Queues {
		opts := &river.InsertOpts{Queue: queue}
		var batch []river.InsertManyParams
		flush := func() error {
			_, err := c.InsertManyFast(ctx, batch)
			batch = batch[:0]
			return err
		}
		for t := range l.tasks(l.share(i)) {
			if batch = append(batch, river.InsertManyParams{Args: t, InsertOpts: opts}); len(batch) == 10_000 {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		if len(batch) > 0 {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	_, err = st.Pool.Exec(ctx, "VACUUM ANALYZE river_job")
	return err
}

func leftRiver(ctx context.Context, st Store) (left int64, err error) {
	err = st.Pool.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE finalized_at IS NULL").Scan(&left)
	return left, err
}
