// Package outbox pushes jobs in a transaction of the user's database: a job is there if and only if its transaction is. A job is
// a row of the table troupe_outbox until a Relay has brought it to Redis:
//
//	box := outbox.New(client.New(rdb), outbox.Postgres)
//	jid, err := box.Push(ctx, tx, Welcome{UserID: 1}) // tx is a *sql.Tx
//
// A Relay reads many rows at a time, a batch of rows. It gives them a number in a transaction, pushes them by a script of Redis that takes
// each number once, and deletes them. Whatever dies in between, the next relay finds the rows with their number: each committed
// job is pushed once. Redis forgets a number after 24 hours: a relay that is broken off between the push and the deletion, and
// followed by none for as long, leaves rows that are pushed again, with the same jids.
//
// The package has no driver: it uses database/sql.
package outbox
