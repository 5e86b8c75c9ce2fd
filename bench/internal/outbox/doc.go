// Package outbox has the tests of troupe's package outbox with a real PostgreSQL, a real MariaDB and SQLite, whose drivers are in this
// module and not in troupe's.
package outbox
