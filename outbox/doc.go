// Package outbox pushes jobs in a transaction of the user's database: a job is there if and only if its transaction is. A job is
// a row of the table troupe_outbox until a Relay has brought it to Redis:
//
//	box := outbox.New(client.New(rdb), outbox.Postgres)
//	jid, err := box.Push(ctx, tx, Welcome{UserID: 1}) // tx is a *sql.Tx
//
// A Relay reads the rows in batches. It gives a batch a number in a transaction, pushes it by a script of Redis that takes each number
// once, and deletes the rows. Whatever dies in between, the next relay finds the batch with its number: each committed
// job is pushed once. Redis forgets a number after 24 hours: a relay that is broken off between the push and the deletion, and
// followed by none for as long, leaves a batch that is pushed again, with the same jids.
//
// The package has no driver: it uses database/sql.
package outbox
