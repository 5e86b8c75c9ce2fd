package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/outbox"
)

type Welcome struct {
	UserID int `arg:"0"`
}

func (Welcome) Class() string { return "Welcome" }

// A push is an INSERT in the transaction.
func ExampleOutbox_Push() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"}) // is not asked
	defer func() { _ = rdb.Close() }()
	box := outbox.New(client.New(rdb), outbox.Postgres)
	ctx := context.Background()
	tx := outbox.ExecFunc(func(_ context.Context, query string, args ...any) (int64, error) {
		fmt.Println(query)
		for i := 0; i < len(args); i += 3 {
			p, _ := troupe.ParsePayload([]byte(args[i+2].(string)))
			fmt.Println(args[i], args[i+1], p.Class(), string(p.Args()))
		}
		return 1, nil
	})
	jid, err := box.Push(ctx, tx, Welcome{UserID: 1}, client.JID("0d6ec0d6a7e2450f8a158dc8"))
	fmt.Println(jid, err)
	_, err = box.PushClass(ctx, tx, "HardJob", []any{"a", 2}, client.Queue("ruby"))
	fmt.Println(err)
	jids, err := box.PushMany(ctx, tx, client.Job(Welcome{UserID: 2}), client.Job(Welcome{UserID: 3}))
	fmt.Println(len(jids), err)
	// Output:
	// INSERT INTO troupe_outbox (queue, at, payload) VALUES ($1, $2, $3)
	// default <nil> Welcome [1]
	// 0d6ec0d6a7e2450f8a158dc8 <nil>
	// INSERT INTO troupe_outbox (queue, at, payload) VALUES ($1, $2, $3)
	// ruby <nil> HardJob ["a",2]
	// <nil>
	// INSERT INTO troupe_outbox (queue, at, payload) VALUES ($1, $2, $3), ($4, $5, $6)
	// default <nil> Welcome [2]
	// default <nil> Welcome [3]
	// 2 <nil>
}

// A Tx of a driver of one's own.
func ExampleExecFunc() {
	var tx outbox.Tx = outbox.ExecFunc(func(_ context.Context, query string, args ...any) (int64, error) {
		fmt.Println(query, args)
		return 0, nil
	})
	_, err := tx.ExecContext(context.Background(), "SELECT $1", 1)
	fmt.Println(err)
	// Output:
	// SELECT $1 [1]
	// <nil>
}

func ExampleSchema() {
	text, err := outbox.Schema(outbox.Postgres)
	fmt.Println(strings.Count(text, "CREATE TABLE IF NOT EXISTS"), err)
	_, err = outbox.Schema("oracle")
	fmt.Println(err)
	// Output:
	// 4 <nil>
	// outbox: dialect is "oracle", expected one of ["mysql" "postgres" "sqlite"]
}

// A run after a crash finds the note of the one that has crashed, and has nothing left to do.
func ExampleOnce() {
	var db *sql.DB
	invoice := func(ctx context.Context, job *troupe.Job[Welcome]) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		first, err := outbox.Once(ctx, tx, outbox.Postgres, "invoice")
		if err != nil || !first {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO invoices (user_id) VALUES ($1)", job.Args.UserID); err != nil {
			return err
		}
		return tx.Commit()
	}
	var jobs troupe.Registry
	troupe.Handle(&jobs, invoice)

	_, err := outbox.Once(context.Background(), db, outbox.Postgres, "invoice")
	fmt.Println(err)
	// Output: outbox: token "invoice": the context belongs to no job, expected that of a handler
}

// A relay runs in a goroutine until its context ends.
func ExampleRelay() {
	db, err := sql.Open("pgx", "postgres://localhost/shop") // with the driver of the program
	if err != nil {
		log.Print(err)
		return
	}
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	ctx := context.Background()
	if err := outbox.Migrate(ctx, db, outbox.Postgres); err != nil {
		log.Print(err)
		return
	}
	relay, err := outbox.NewRelay(db, client.New(rdb), outbox.RelayConfig{
		Dialect: outbox.Postgres, OnError: func(err error) { log.Print(err) },
	})
	if err != nil {
		log.Print(err)
		return
	}
	n, err := relay.Once(ctx) // one batch, in a test for example
	log.Print(n, err)
	go func() { _ = relay.Run(ctx) }()
	log.Print(relay.Stats().Pushed)
	// Output:
}

// Redis has lost its data an hour ago.
func ExampleReplay() {
	db, err := sql.Open("pgx", "postgres://localhost/shop") // with the driver of the program
	if err != nil {
		log.Print(err)
		return
	}
	n, err := outbox.Replay(context.Background(), db, outbox.Postgres, time.Now().Add(-time.Hour))
	log.Print(n, err)
	// Output:
}

// What waits, and what can be no job.
func ExampleReadStatus() {
	db, err := sql.Open("pgx", "postgres://localhost/shop") // with the driver of the program
	if err != nil {
		log.Print(err)
		return
	}
	s, err := outbox.ReadStatus(context.Background(), db, outbox.Postgres)
	if err != nil {
		log.Print(err)
		return
	}
	for _, row := range s.Last {
		log.Print(s.Waiting, row.ID, row.Reason)
	}
	// Output:
}
